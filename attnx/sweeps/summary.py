"""How a sweep stands: its final status, README.md and report, and the summary on the terminal."""

from __future__ import annotations

import shlex
import sys
import traceback
from contextlib import suppress
from typing import Literal

from attnx.errors import ExitCode, type_and_text
from attnx.files.atomic_files import write_text
from attnx.files.printable import print_line, printable
from attnx.reports.markdown import titled_table
from attnx.runs.info import DONE_STATUSES, RunStatus
from attnx.runs.layout import ERROR_TXT, README, STUDY
from attnx.runs.sweep import Sweep, read_step_time
from attnx.sweeps.live_table import best_job, best_text, format_duration
from attnx.sweeps.record import save_sweep, sync_from_folder, timestamp
from attnx.training.callbacks.stop_signal import StopSignal

FILES = """\
## Files

| file | content |
|---|---|
| `0`, `1`, ... | one run folder a job, each with its own README and `log.txt`, the job's output |
| `sweep.json` | the command, and for each job its overrides, status, times and best value |
| `report.html`, `.md`, `.csv`, `.effects.csv`, `.tex`, `.runs.csv` | ranking of the settings, once a job is tested |
"""
STUDY_ROW = f"| `{STUDY}` | the search's trials, for Optuna |"


def note_sweep_end(sweep: Sweep, status: Literal["interrupted", "failed"]) -> None:
    """Write how a sweep ended: finished if all jobs are done, else with a status."""
    if not sweep.path.is_dir():
        return
    with StopSignal() as stop_signal:
        stop_signal.ignore()  # another Ctrl-C must not leave a sweep that says it is running
        for job in sweep.jobs:
            if job.status in (RunStatus.WAITING, RunStatus.RUNNING):  # another launcher may have run it
                sync_from_folder(sweep, job)
        is_finished = all(job.status in DONE_STATUSES for job in sweep.jobs) and sweep.jobs
        sweep.status = RunStatus.FINISHED if is_finished else RunStatus(status)
        sweep.ended = sweep.ended or timestamp()
        save_sweep(sweep)
        write_sweep_readme(sweep)


def failure_message(sweep: Sweep, error: Exception) -> str:
    """The error that ended a sweep in one line; its traceback is written into the sweep's folder."""
    advice = f"resume with: {sweep.resume_command}"
    with suppress(OSError):
        write_text(sweep.path / ERROR_TXT, "".join(traceback.format_exception(error)))
        advice = f"the traceback is in {sweep.path / ERROR_TXT}; {advice}"
    return f"{type_and_text(error)}; {advice}"


def write_sweep_report(sweep: Sweep) -> None:
    """Write the report that compares the runs, and print its path; an error in it does not fail the sweep."""
    try:
        from attnx.reports.sweep.report import write_report

        page, *_ = write_report([sweep.path])
    except (Exception, KeyboardInterrupt) as error:
        reason = printable(" ".join(str(error).split()) or type(error).__name__)
        command = f"attnx report {shlex.quote(str(sweep.path))}"
        print_line(f"attnx: the report could not be written: {reason}; write it with: {command}", file=sys.stderr)
    else:
        print_line(page, flush=True)


def report_sweep(sweep: Sweep) -> int:
    """Print the summary of a sweep that has ended, and return the exit code."""
    best = best_job(sweep)
    best_clause = f"; best {best_text(best)}: job {best.index}, {sweep.label(best)}" if best else ""
    if steps := measured_steps(sweep):
        print_line(steps, flush=True)
    print(printable(f"{sweep.path}: {len(sweep.jobs)} job(s), {sweep.status_counts}{best_clause}"), flush=True)
    if failed := [job for job in sweep.jobs if job.status == RunStatus.FAILED]:
        keys = sweep.swept_keys
        lines = [printable(f"{sweep.label(job, keys)}: {job.error}; see {sweep.log(job)}") for job in failed]
        heading = f"attnx: {len(failed)} job(s) failed; try them again with: {sweep.resume_command}"
        print(heading, *lines, sep="\n  ", file=sys.stderr)
    write_sweep_report(sweep)
    return ExitCode.FINISHED if sweep.status == RunStatus.FINISHED else ExitCode.FAILED


def report_detached(sweep: Sweep) -> int:
    """Print how to go on with a sweep whose jobs a cluster has, and return the exit code."""
    write_sweep_readme(sweep)
    folder = shlex.quote(str(sweep.path))
    how = f"attnx runs {folder} shows them, attnx report {folder} compares them, {sweep.resume_command} completes them"
    print_line(f"{sweep.path}: {len(sweep.jobs)} job(s), {sweep.status_counts}; {how}", flush=True)
    return ExitCode.FINISHED


def write_sweep_readme(sweep: Sweep) -> None:
    """Write the README.md of a sweep's folder."""
    sections = [f"# {sweep.name}", f"A sweep of attnx, created {sweep.created}, {sweep.status}: {sweep.status_counts}."]
    if steps := measured_steps(sweep):
        sections.append(f"{steps}.")
    if best := best_job(sweep):
        sections.append(f"Best in validation: job {best.index}, {best_text(best)} ({sweep.label(best)}).")
    sections += [f"```sh\n{sweep.command}\n```", _jobs_table(sweep)]
    failed = [job for job in sweep.jobs if job.status == RunStatus.FAILED]
    if failed:
        links = [f"- [{job.index}]({sweep.log(job).relative_to(sweep.path)})" for job in failed]
        keys = sweep.swept_keys
        lines = [f"{link}: {sweep.label(job, keys)}: {job.error}" for link, job in zip(links, failed, strict=True)]
        sections.append("\n".join(["## What failed", "", *lines]))
    sections.append((FILES + (STUDY_ROW if (sweep.path / STUDY).is_file() else "")).rstrip())
    if sweep.status != RunStatus.FINISHED:
        sections.append(f"## Resume\n\nFinished jobs are skipped.\n\n```sh\n{sweep.resume_command}\n```")
    write_text(sweep.path / README, "\n\n".join(sections) + "\n")


def _jobs_table(sweep: Sweep) -> str:
    keys, has_match = sweep.swept_keys, any(job.match for job in sweep.jobs)
    rows = []
    for job in sweep.jobs:
        link = f"[{job.index}]({job.index})" if sweep.folder(job).is_dir() else str(job.index)
        choices = [job.values.get(key, "") for key in keys] + ([job.match or ""] if has_match else [])
        duration = format_duration(job.seconds) if job.seconds else ""
        rows.append([link, *choices, job.status, best_text(job), duration])
    return titled_table("Jobs", ["job", *keys, *(["match"] if has_match else []), "status", "best", "time"], rows)


def measured_steps(sweep: Sweep) -> str:
    """How many steps fit into the jobs' time, as one of them measured; "" before that."""
    step_time = read_step_time(sweep.path)
    if step_time is None:
        return ""
    proportion = "; other times in proportion" if "trainer.max_time" in sweep.swept_keys else ""
    source = f"as job {step_time.job} measured"
    return f"{step_time.steps:,} steps a job: as many as fit into {step_time.max_time}, {source}{proportion}"

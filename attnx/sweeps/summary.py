"""The end of a sweep: write its final status, README and report, and print a summary."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections import Counter
from contextlib import suppress
from typing import Literal

from attnx.errors import ExitCode
from attnx.files.printable import printable
from attnx.runs.layout import ERROR
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep
from attnx.sweeps.live_table import best_job, best_text
from attnx.sweeps.readme import write_readme
from attnx.sweeps.record import DONE_STATUSES, save_sweep, sync_from_folder, timestamp
from attnx.sweeps.training_length import measured_steps
from attnx.training.callbacks.stop_signal import StopSignal


def note_sweep_end(sweep: Sweep, status: Literal["interrupted", "failed"]) -> None:
    """Write how a sweep ended.

    Args:
        sweep: the sweep; jobs that another launcher ran are not up to date in it.
        status: how it ended, if not all jobs are done.
    """
    if not sweep.path.is_dir():
        return
    with StopSignal() as stop_signal:
        stop_signal.ignore()  # another Ctrl-C must not leave a sweep that says it is running
        for job in sweep.jobs:
            if job.status in ("waiting", "running"):
                sync_from_folder(sweep, job)
        is_finished = all(job.status in DONE_STATUSES for job in sweep.jobs) and sweep.jobs
        sweep.status = RunStatus.FINISHED if is_finished else RunStatus(status)
        sweep.ended = sweep.ended or timestamp()
        save_sweep(sweep)
        write_readme(sweep)


def is_done(sweep: Sweep) -> bool:
    """Whether a sweep has finished, and its jobs' folders say so, too."""
    return sweep.status == "finished" and all(job.status in DONE_STATUSES for job in sweep.jobs)


def resume_command(sweep: Sweep) -> str:
    """The command that resumes a sweep."""
    return f"attnx resume {shlex.quote(str(sweep.path))}"


def failure_message(sweep: Sweep, error: Exception) -> str:
    """The error that ended a sweep in one line; its traceback is written into the sweep's folder."""
    advice = f"resume with: {resume_command(sweep)}"
    with suppress(OSError):
        (sweep.path / ERROR).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        advice = f"the traceback is in {sweep.path / ERROR}; {advice}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}; {advice}"


def write_sweep_report(sweep: Sweep) -> None:
    """Write the report that compares the runs, and print its path; an error in it does not fail the sweep."""
    try:
        from attnx.reports.sweep.write import write_report

        page, *_ = write_report([sweep.path])
    except (Exception, KeyboardInterrupt) as error:
        reason = printable(" ".join(str(error).split()) or type(error).__name__)
        command = f"attnx report {shlex.quote(str(sweep.path))}"
        print(f"attnx: the report could not be written: {reason}; write it with: {command}", file=sys.stderr)
    else:
        print(page, flush=True)


def report_sweep(sweep: Sweep) -> int:
    """Print the summary of a sweep that has ended, and return the exit code."""
    counts = Counter(job.status for job in sweep.jobs)
    statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
    best = best_job(sweep)
    best_clause = f"; best {best_text(best)}: job {best.index}, {sweep.label(best)}" if best else ""
    if steps := measured_steps(sweep):
        print(steps, flush=True)
    print(printable(f"{sweep.path}: {len(sweep.jobs)} job(s), {statuses}{best_clause}"), flush=True)
    if counts[RunStatus.FAILED]:
        failed = [job for job in sweep.jobs if job.status == "failed"]
        lines = [printable(f"{sweep.label(job)}: {job.error}; see {sweep.log(job)}") for job in failed]
        heading = f"attnx: {len(failed)} job(s) failed; try them again with: {resume_command(sweep)}"
        print(heading, *lines, sep="\n  ", file=sys.stderr)
    write_sweep_report(sweep)
    return ExitCode.FINISHED if sweep.status == "finished" else ExitCode.FAILED

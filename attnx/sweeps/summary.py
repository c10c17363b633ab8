"""How a sweep stands: a live table or lines while it runs; then its final status, README.md, report and summary."""

from __future__ import annotations

import shlex
import statistics
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from attnx.errors import ExitCode, one_line, type_and_text
from attnx.files.atomic_files import write_text
from attnx.files.printable import can_redraw, print_line, printable, titled_table
from attnx.reports.significant_digits import format_value
from attnx.runs.info import DONE_STATUSES, RunStatus
from attnx.runs.layout import ERROR_TXT, README, STUDY
from attnx.runs.run import JobProgress
from attnx.runs.sweep import Sweep, SweepJob, read_step_time
from attnx.sweeps.record import save_sweep, sync_from_folder, timestamp
from attnx.training.stop_signal import StopSignal

STATUS_STYLES = {
    "waiting": "dim",
    "running": "cyan",
    "finished": "green",
    "failed": "bold red",
    "interrupted": "yellow",
    "pruned": "magenta",
    "stopped": "yellow",  # of a run: `attnx runs` shows them, too
}
# If the terminal has too few lines, jobs with the last statuses of this list are hidden first.
STATUS_PRIORITY = ("running", "failed", "interrupted", "finished", "pruned", "waiting")
# Lines of the terminal that show no job.
EXTRA_LINES = 7
STOPPING = "stopping: each job saves a checkpoint; press Ctrl-C again not to wait for the end of its batch"
FILES = """\
## Files

| file | content |
|---|---|
| `0`, `1`, ... | one run folder a job, each with its own README and `log.txt`, the job's output |
| `sweep.json` | the command, and for each job its overrides, status, times and best value |
| `report.html`, `.md`, `.csv`, `.effects.csv`, `.tex`, `.runs.csv` | ranking of the settings, once a job is tested |
"""
STUDY_ROW = f"| `{STUDY}` | the search's trials, for Optuna |"


class LiveTable:
    """Shows a running sweep, of which ``max_parallel`` jobs run at a time."""

    def __init__(self, console: Console, max_parallel: int) -> None:
        self.console, self.max_parallel = console, max_parallel
        #: rich's display, whose last frame stays on the screen; None outside a terminal
        self.live = Live(console=console, auto_refresh=False) if can_redraw(console) else None
        self.is_stopping = False
        self.gpus: dict[int, str] = {}  #: the numbers of a job's GPUs among the visible ones, where there are several
        self.first_steps: dict[int, tuple[float, int]] = {}  # job -> time and step when it was first seen training

    def show(self, sweep: Sweep, progress: Mapping[int, JobProgress]) -> None:
        """Update the table."""
        for index, job_progress in progress.items():
            if job_progress.step and index not in self.first_steps:
                self.first_steps[index] = (time.monotonic(), job_progress.step)
        if self.live:
            self.live.update(self.table(sweep, progress), refresh=True)

    def report_job(self, sweep: Sweep, job: SweepJob) -> None:
        """Print that a job has started or how it ended, where there is no table."""
        if job.status != "running":
            self.first_steps.pop(job.index, None)
        if self.live:
            return
        line = f"job {job.index} {job.status}: {sweep.label(job)}"
        if job.status == "running":
            line += f"{self._place(job)} -> {sweep.folder(job)}"
        else:
            line += f"  {job.seconds:.1f} s  {best_text(job)}".rstrip()
        if job.error:
            line += f"  {job.error}; see {sweep.log(job)}"
        self.print(line)

    def print(self, line: str) -> None:
        """Print a line as it is."""
        self.console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    def report_stop(self) -> None:
        """Report that no more jobs start, and the running ones are to end."""
        self.is_stopping = True
        if not self.live:
            self.print(STOPPING)

    def table(self, sweep: Sweep, progress: Mapping[int, JobProgress]) -> Table:
        """All jobs, or as many as fit."""
        table = Table(title=Text(printable(str(sweep.path))), title_justify="left", caption_justify="left")
        keys = sweep.swept_keys
        has_match = any(job.match for job in sweep.jobs)
        for column in ("job", *keys, *(["match"] if has_match else []), "status", "step", "time", "best"):
            table.add_column(column, justify="right" if column in ("job", "step", "time", "best") else "left")
        capacity = max(1, self.console.height - EXTRA_LINES)
        jobs = sorted(sweep.jobs, key=lambda job: (STATUS_PRIORITY.index(job.status), job.ended is None, -job.index))
        for job in sorted(jobs[:capacity], key=lambda job: job.index):
            choices = [Text(printable(job.values.get(key, ""))) for key in keys]
            choices += [Text(printable(job.match or ""))] if has_match else []
            table.add_row(str(job.index), *choices, *self._status_cells(job, progress.get(job.index)))
        table.caption = Text(printable(self._summary(sweep, max(0, len(jobs) - capacity), progress)))
        return table

    def _status_cells(self, job: SweepJob, progress: JobProgress | None) -> list[Text]:
        is_running = job.status == "running"
        status = Text(f"{job.status}{self._place(job) if is_running else ''}", STATUS_STYLES[job.status])
        if is_running and progress:
            seconds = self._remaining_seconds(job.index, progress)
            step = f"{progress.step:,}/{progress.steps:,}" if progress.steps else ""
            remaining = "" if seconds is None else f"{format_duration(seconds)} left"
            return [status, Text(step), Text(remaining), Text(best_text(job))]
        if job.status == "failed":
            return [status, Text(), Text(), Text(printable(job.error or ""), "red")]
        return [status, Text(), Text(format_duration(job.seconds) if job.attempts else "", "dim"), Text(best_text(job))]

    def _place(self, job: SweepJob) -> str:
        return f" on GPU {self.gpus[job.index]}" if job.index in self.gpus else ""

    def _remaining_seconds(self, index: int, progress: JobProgress) -> float | None:
        """Estimate a job's remaining time by the steps it has taken since it was first seen training."""
        started, first_step = self.first_steps.get(index, (0.0, progress.step))
        steps = progress.step - first_step
        return (time.monotonic() - started) / steps * (progress.steps - progress.step) if steps > 0 else None

    def _summary(self, sweep: Sweep, hidden: int, progress: Mapping[int, JobProgress]) -> str:
        clauses = [sweep.status_counts]
        durations = [job.seconds for job in sweep.jobs if job.status == "finished" and job.attempts == 1]
        if durations and not self.is_stopping:
            waiting = sum(job.status in ("waiting", "interrupted") for job in sweep.jobs)
            seconds = statistics.mean(durations) * waiting
            seconds += sum(self._remaining_seconds(index, item) or 0.0 for index, item in progress.items())
            clauses.append(f"about {format_duration(seconds / self.max_parallel)} left")
        if best := best_job(sweep):
            clauses.append(f"best {best_text(best)}: {sweep.label(best)}")
        if hidden:
            clauses.append(f"{hidden} not shown")
        if self.is_stopping:
            clauses.append(STOPPING)
        return ", ".join(clauses)


def best_job(sweep: Sweep) -> SweepJob | None:
    """The best job so far; None if the jobs have different metrics."""
    jobs = [job for job in sweep.jobs if job.best is not None]
    if len({(job.monitor, job.maximize) for job in jobs}) != 1:
        return None
    return min(jobs, key=lambda job: -job.best if job.maximize else job.best)  # type: ignore[operator, arg-type, return-value]


def best_text(job: SweepJob) -> str:
    """A job's metric, which is of validation, and its best value so far."""
    return "" if job.best is None else f"{job.monitor or ''} {format_value(float(job.best))}"


def format_duration(seconds: float) -> str:
    """Seconds as minutes, or as hours.

    >>> format_duration(59.6), format_duration(3599), format_duration(3661)
    ('1:00', '59:59', '1:01:01')
    """
    rounded = round(seconds)
    hours, minutes = divmod(rounded // 60, 60)
    return f"{hours}:{minutes:02d}:{rounded % 60:02d}" if hours else f"{minutes}:{rounded % 60:02d}"


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
        command = f"attnx report {shlex.quote(str(sweep.path))}"
        reason = printable(one_line(error))
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
    keys, has_match = sweep.swept_keys, any(job.match for job in sweep.jobs)
    rows = []
    for job in sweep.jobs:
        link = f"[{job.index}]({job.index})" if sweep.folder(job).is_dir() else str(job.index)
        choices = [job.values.get(key, "") for key in keys] + ([job.match or ""] if has_match else [])
        rows.append([link, *choices, job.status, best_text(job), format_duration(job.seconds) if job.seconds else ""])
    head = ["job", *keys, *(["match"] if has_match else []), "status", "best", "time"]
    sections += [f"```sh\n{sweep.command}\n```", titled_table("Jobs", head, rows)]
    failed = [job for job in sweep.jobs if job.status == RunStatus.FAILED]
    if failed:
        links = [f"- [{job.index}]({sweep.log(job).relative_to(sweep.path)})" for job in failed]
        lines = [f"{link}: {sweep.label(job, keys)}: {job.error}" for link, job in zip(links, failed, strict=True)]
        sections.append("\n".join(["## What failed", "", *lines]))
    sections.append((FILES + (STUDY_ROW if (sweep.path / STUDY).is_file() else "")).rstrip())
    if sweep.status != RunStatus.FINISHED:
        sections.append(f"## Resume\n\nFinished jobs are skipped.\n\n```sh\n{sweep.resume_command}\n```")
    write_text(sweep.path / README, "\n\n".join(sections) + "\n")


def measured_steps(sweep: Sweep) -> str:
    """How many steps fit into the jobs' time, as one of them measured; "" before that."""
    step_time = read_step_time(sweep.path)
    if step_time is None:
        return ""
    proportion = "; other times in proportion" if "trainer.max_time" in sweep.swept_keys else ""
    source = f"as job {step_time.job} measured"
    return f"{step_time.steps:,} steps a job: as many as fit into {step_time.max_time}, {source}{proportion}"

"""Show a running sweep: a live table in a terminal, a line for each event elsewhere."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from attnx.files.printable import can_redraw, printable
from attnx.reports.significant_digits import format_value
from attnx.runs.run import JobProgress
from attnx.runs.sweep import Sweep, SweepJob

STATUS_STYLES = {
    "waiting": "dim",
    "running": "cyan",
    "finished": "green",
    "failed": "bold red",
    "interrupted": "yellow",
    "pruned": "magenta",
    "stopped": "yellow",
}
# If the terminal has too few lines, jobs with the last statuses of this list are hidden first.
STATUS_PRIORITY = ("running", "failed", "interrupted", "finished", "pruned", "waiting")
# Lines of the terminal that show no job.
EXTRA_LINES = 7
STOPPING = "stopping: each job saves a checkpoint; press Ctrl-C again not to wait for the end of its batch"


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
        jobs = self._jobs_to_show(sweep.jobs)
        for job in jobs:
            choices = [Text(printable(job.values.get(key, ""))) for key in keys]
            choices += [Text(printable(job.match or ""))] if has_match else []
            table.add_row(str(job.index), *choices, *self._status_cells(job, progress.get(job.index)))
        table.caption = Text(printable(self._summary(sweep, len(sweep.jobs) - len(jobs), progress)))
        return table

    def _jobs_to_show(self, jobs: list[SweepJob]) -> list[SweepJob]:
        capacity = max(1, self.console.height - EXTRA_LINES)
        if len(jobs) <= capacity:
            return jobs
        by_priority = sorted(jobs, key=lambda job: (STATUS_PRIORITY.index(job.status), job.ended is None, -job.index))
        return sorted(by_priority[:capacity], key=lambda job: job.index)

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
    """A job's metric and its best value so far."""
    return "" if job.best is None else f"{(job.monitor or '').removeprefix('valid_')} {format_value(float(job.best))}"


def format_duration(seconds: float) -> str:
    """Seconds as minutes, or as hours.

    >>> format_duration(59.6), format_duration(3599), format_duration(3661)
    ('1:00', '59:59', '1:01:01')
    """
    rounded = round(seconds)
    hours, minutes = divmod(rounded // 60, 60)
    return f"{hours}:{minutes:02d}:{rounded % 60:02d}" if hours else f"{minutes}:{rounded % 60:02d}"

"""Shows a sweep: a table that is kept up to date in a terminal, a line for each event anywhere else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from attnx.files.printable import printable
from attnx.reports.significant_digits import format_value
from attnx.runs.progress import JobProgress
from attnx.runs.sweep import Sweep, SweepJob

STYLES = {
    "waiting": "dim",
    "running": "cyan",
    "finished": "green",
    "failed": "bold red",
    "interrupted": "yellow",
    "pruned": "magenta",
}
# Those a crowded table leaves out first are last.
FIRST = ("running", "failed", "interrupted", "finished", "pruned", "waiting")
# Lines of a terminal that are not a job's.
AROUND = 7
STOPPING = "stopping: each job saves what it has learned; Ctrl-C again does not wait for the end of its batch"


class SweepScreen:
    """Draws a sweep while it runs; as a context, it gives the terminal back.

    Args:
        console: where to draw.
        side_by_side: how many jobs run at a time, to say how long it will take.
    """

    def __init__(self, console: Console, side_by_side: int) -> None:
        self.console, self.side_by_side = console, side_by_side
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self.stopping = False
        self.since: dict[int, tuple[float, int]] = {}  # job -> when it was first seen training, and at which step

    def __enter__(self) -> SweepScreen:
        """Take the terminal."""
        if self.live:
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give the terminal back; the last table stays."""
        if self.live:
            self.live.stop()

    def show(self, sweep: Sweep, stands: Mapping[int, JobProgress]) -> None:
        """Draw the table."""
        for number, stand in stands.items():
            if stand.step and number not in self.since:
                self.since[number] = (time.monotonic(), stand.step)
        if self.live:
            self.live.update(self.table(sweep, stands), refresh=True)

    def tell(self, sweep: Sweep, job: SweepJob) -> None:
        """Tell that a job began or how it ended, where no table does."""
        if job.status != "running":
            self.since.pop(job.index, None)
        if self.live:
            return
        words = f"job {job.index} {job.status}: {sweep.label(job)}"
        if job.status == "running":
            words += f" -> {sweep.folder(job)}"
        else:
            words += f"  {job.seconds:.1f} s  {best(job)}".rstrip()
        if job.error:
            words += f"  {job.error}; see {sweep.log(job)}"
        self.console.print(printable(words), highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Tell that no more jobs begin, and those that run are to end."""
        self.stopping = True
        if not self.live:
            self.console.print(STOPPING, highlight=False)

    def table(self, sweep: Sweep, stands: Mapping[int, JobProgress]) -> Table:
        """All jobs, or as many as there is room for."""
        table = Table(title=Text(printable(str(sweep.path))), title_justify="left", caption_justify="left")
        varied = sweep.swept_keys
        for column in ("job", *varied, "status", "step", "time", "best"):
            table.add_column(column, justify="right" if column in ("job", "step", "time", "best") else "left")
        jobs = self._chosen(sweep.jobs)
        for job in jobs:
            choices = [Text(printable(job.values.get(key, ""))) for key in varied]
            table.add_row(str(job.index), *choices, *self._told(job, stands.get(job.index)))
        table.caption = Text(printable(self._summary(sweep, len(sweep.jobs) - len(jobs), stands)))
        return table

    def _chosen(self, jobs: list[SweepJob]) -> list[SweepJob]:
        room = max(1, self.console.height - AROUND)
        if len(jobs) <= room:
            return jobs
        ranked = sorted(jobs, key=lambda job: (FIRST.index(job.status), job.ended is None, -job.index))[:room]
        return sorted(ranked, key=lambda job: job.index)

    def _told(self, job: SweepJob, stand: JobProgress | None) -> list[Text]:
        status = Text(job.status, STYLES[job.status])
        if job.status == "running" and stand:
            left = self._left(job.index, stand)
            step = f"{stand.step:,}/{stand.steps:,}" if stand.steps else ""
            return [status, Text(step), Text("" if left is None else f"{clock(left)} left"), Text(best(job))]
        if job.status == "failed":
            return [status, Text(), Text(), Text(printable(job.error or ""), "red")]
        return [status, Text(), Text(clock(job.seconds) if job.attempts else "", "dim"), Text(best(job))]

    def _left(self, number: int, stand: JobProgress) -> float | None:
        """Seconds until a job has taken all steps, by how long those took that were watched."""
        began, first = self.since.get(number, (0.0, stand.step))
        taken = stand.step - first
        return (time.monotonic() - began) / taken * (stand.steps - stand.step) if taken > 0 else None

    def _summary(self, sweep: Sweep, hidden: int, stands: Mapping[int, JobProgress]) -> str:
        count: Counter[str] = Counter(job.status for job in sweep.jobs)
        said = [f"{count[status]} {status}" for status in STYLES if count[status]]
        took = [job.seconds for job in sweep.jobs if job.status == "finished" and job.attempts == 1]
        if took and not self.stopping:
            running = sum(filter(None, (self._left(number, stand) for number, stand in stands.items())))
            waiting = count["waiting"] + count["interrupted"]
            said.append(f"about {clock((sum(took) / len(took) * waiting + running) / self.side_by_side)} left")
        if winner := winning(sweep):
            said.append(f"best {best(winner)}: {sweep.label(winner)}")
        if hidden:
            said.append(f"{hidden} not shown")
        if self.stopping:
            said.append(STOPPING)
        return ", ".join(said)


def winning(sweep: Sweep) -> SweepJob | None:
    """The job that is best so far, if all are measured alike."""
    known = [job for job in sweep.jobs if job.best is not None]
    if len({(job.monitor, job.maximize) for job in known}) != 1:
        return None
    return min(known, key=lambda job: -job.best if job.maximize else job.best)  # type: ignore[operator, arg-type, return-value]


def best(job: SweepJob) -> str:
    """The best value of a job so far, with the name of what was measured."""
    return "" if job.best is None else f"{(job.monitor or '').removeprefix('valid_')} {format_value(float(job.best))}"


def clock(seconds: float) -> str:
    """Seconds as minutes, or as hours.

    >>> clock(59.6), clock(3599), clock(3661)
    ('1:00', '59:59', '1:01:01')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"

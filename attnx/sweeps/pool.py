"""Runs a sweep's jobs, so many at a time, and keeps the record of them; whatever one does, the others go on."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Protocol

from attnx.runs.progress import JobProgress
from attnx.runs.run import Run
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.job_process import INTERRUPTED, JobSpec
from attnx.sweeps.processes import LOST, Ended, Processes
from attnx.sweeps.record import begin, note, note_end, note_run, now, refresh, save
from attnx.training.distributed.slurm import signals

# Seconds between two looks at how far the jobs are.
TICK = 0.25
OUT_OF_MEMORY = " (by hand, or by a system that ran out of memory: lower trainer.batch_size, or -j)"
# What Ctrl-C sends, the first, the second and the third time: save and end, end at once, be gone.
PRESSED = (signal.SIGINT, signal.SIGINT, signal.SIGKILL)


class Screen(Protocol):
    """Where a sweep shows how it stands."""

    def show(self, sweep: Sweep, stands: Mapping[int, JobProgress]) -> None:
        """Show all jobs, and how far those that run are."""

    def tell(self, sweep: Sweep, job: SweepJob) -> None:
        """Tell what has become of one."""

    def stop(self) -> None:
        """Tell that no more jobs begin, and those that run are to end."""


class Pool:
    """Runs jobs.

    Args:
        sweep: whose jobs they are.
        processes: what starts them.
        side_by_side: how many run at a time.
        screen: where it is shown.
        hopeless: asked now and then whether a running job is to be stopped because others are clearly better.
    """

    def __init__(
        self,
        sweep: Sweep,
        processes: Processes,
        side_by_side: int,
        screen: Screen,
        hopeless: Callable[[SweepJob], bool] = lambda job: False,
    ) -> None:
        self.sweep, self.processes, self.side_by_side, self.screen = sweep, processes, side_by_side, screen
        self.hopeless = hopeless
        self.running: dict[int, float] = {}  # job -> when it was started
        self.stands: dict[int, JobProgress] = {}
        self.pruned: set[int] = set()
        self.pressed = self.asked = 0

    def run(
        self, asked: Iterator[tuple[SweepJob, JobSpec]], ended: Callable[[SweepJob], None] = lambda job: None
    ) -> bool:
        """Run jobs until there are no more.

        Args:
            asked: the next job and what it is to do; it is asked for one when there is room for it.
            ended: told of each job that has ended.

        Returns:
            whether all were run: Ctrl-C has the running ones save and end, and no more begin.
        """
        with self._listening():
            more, heard = True, 0
            while self.running or (more and not self.pressed):
                while more and not self.pressed and self.processes.ready and len(self.running) < self.side_by_side:
                    more = self._start(next(asked, None))
                heard = self._pass_on(heard)
                for job in map(self._end, self._wait(more)):
                    ended(job)
                self._look()
                self.screen.show(self.sweep, self.stands)
        return not self.pressed

    def _start(self, asked: tuple[SweepJob, JobSpec] | None) -> bool:
        if asked is None:
            return False
        job, task = asked
        job.status, job.started, job.ended, job.error = RunStatus.RUNNING, now(), None, None
        job.attempts += 1
        self.running[job.index] = time.monotonic()
        begin(self.sweep)
        save(self.sweep)
        self.processes.start(job.index, task)
        self.screen.tell(self.sweep, job)
        return True

    def _wait(self, more: bool) -> list[Ended]:
        waits = self.running or (more and not self.processes.ready)
        return self.processes.wait(TICK) if waits else []

    def _look(self) -> None:
        for number in self.running:
            job = self.sweep.jobs[number]
            self.stands[number] = Run(self.sweep.folder(job)).progress
            note(job, self.stands[number])
            if not self.pressed and number not in self.pruned and self.hopeless(job):
                self.pruned.add(number)
                self.processes.signal(number, signal.SIGINT)

    def _end(self, ended: Ended) -> SweepJob:
        job = self.sweep.jobs[ended.job]
        job.seconds = round(job.seconds + time.monotonic() - self.running.pop(job.index), 3)
        job.ended = now()
        self.stands.pop(job.index, None)
        refresh(self.sweep, job)
        if job.status != "finished":
            self._judge(job, ended.code)
        save(self.sweep)
        self.screen.tell(self.sweep, job)
        return job

    def _judge(self, job: SweepJob, code: int) -> None:
        """Say how a job stands that ended before it was whole."""
        folder = self.sweep.folder(job)
        if job.index in self.pruned and code == INTERRUPTED:
            job.status = RunStatus.PRUNED
            note_run(folder, status=RunStatus.PRUNED)
        elif code == INTERRUPTED or (self.pressed and code == -signal.SIGKILL):
            job.status = RunStatus.INTERRUPTED
        else:
            job.status = RunStatus.FAILED
            job.error = reason(code) or Run(folder).progress.error or f"its process ended with exit code {code}"
            if not folder.is_dir():
                job.error = "its folder was deleted while it ran"
        note_end(folder, job.status, job.error)

    def _pass_on(self, heard: int) -> int:
        """Pass on what was pressed since; return how often it was by now."""
        pressed = self.pressed
        for press in range(heard, pressed):
            for number in self.running:
                self.processes.signal(number, PRESSED[min(press, len(PRESSED) - 1)])
        if pressed and not heard:
            self.screen.stop()
        return pressed

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Count Ctrl-C, and being asked to end, instead of falling over; only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._press) for number in signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.asked = self.asked or number
        # A cluster sends several signals, close together, of which the first has said all.
        self.pressed += number == signal.SIGINT or not self.pressed


def reason(code: int) -> str | None:
    """Why a process that could say nothing itself ended with a code."""
    if code == LOST:
        return "the process that it was forked from was killed"
    if code >= 0:
        return None
    known = {int(number): number.name for number in signal.Signals}
    return f"killed by {known.get(-code, f'signal {-code}')}" + (OUT_OF_MEMORY if code == -signal.SIGKILL else "")

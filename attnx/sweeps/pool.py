"""Run a sweep's jobs, several at a time, and record how each one stands."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from attnx.errors import ExitCode
from attnx.runs.progress import JobProgress
from attnx.runs.run import Run
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.processes import SERVER_DIED, JobExit, Processes
from attnx.sweeps.record import (
    mark_running,
    note_job_end,
    note_progress,
    save_sweep,
    start_attempt,
    sync_from_folder,
    timestamp,
    update_run_info,
)
from attnx.training.callbacks.stop_signal import StopSignal
from attnx.training.distributed.child_process import describe_exit

# Time between two looks at the progress of the running jobs.
POLL_SECONDS = 0.25
# What the first, second and third Ctrl-C send to the jobs: save and end, end at once, be killed.
STOP_SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGKILL)


class Screen(Protocol):
    """Shows how a sweep stands."""

    def show(self, sweep: Sweep, progress: Mapping[int, JobProgress]) -> None:
        """Show all jobs, and the progress of those that run."""

    def report_job(self, sweep: Sweep, job: SweepJob) -> None:
        """Report that a job has started, or how it ended."""

    def report_stop(self) -> None:
        """Report that no more jobs start, and the running ones are to end."""


class Pool:
    """Runs jobs.

    Args:
        sweep: the sweep.
        processes: starts the jobs' processes.
        max_parallel: how many jobs run at a time.
        screen: where to show it.
        should_prune: called now and then for each running job; whether to stop it because others are clearly better.
    """

    def __init__(
        self,
        sweep: Sweep,
        processes: Processes,
        max_parallel: int,
        screen: Screen,
        should_prune: Callable[[SweepJob], bool] = lambda job: False,
    ) -> None:
        self.sweep, self.processes, self.max_parallel, self.screen = sweep, processes, max_parallel, screen
        self.should_prune = should_prune
        self.running: dict[int, float] = {}  # job -> when it was started
        self.progress: dict[int, JobProgress] = {}
        self.pruned: set[int] = set()
        self.stop_signal = StopSignal(lambda signum: None)
        self._sent_stops = 0

    def run(
        self, jobs: Iterator[tuple[SweepJob, JobSpec]], on_job_end: Callable[[SweepJob], None] = lambda job: None
    ) -> bool:
        """Run jobs until there are no more.

        Args:
            jobs: the next job with its spec; it is asked for one when a job can start.
            on_job_end: called with each job that has ended.

        Returns:
            whether all jobs ran: after Ctrl-C the running ones save and end, and no more start.
        """
        with self.stop_signal:
            has_more = True
            while self.running or (has_more and not self.stop_signal.signum):
                while has_more and self._can_start():
                    has_more = self._start(next(jobs, None))
                self._send_stops()
                if self.running or (has_more and not self.processes.is_ready):
                    for job_exit in self.processes.wait(POLL_SECONDS):
                        on_job_end(self._end(job_exit))
                self._update_progress()
                self.screen.show(self.sweep, self.progress)
        return not self.stop_signal.signum

    def _can_start(self) -> bool:
        has_room = self.processes.is_ready and len(self.running) < self.max_parallel
        return has_room and not self.stop_signal.signum

    def _start(self, item: tuple[SweepJob, JobSpec] | None) -> bool:
        if item is None:
            return False
        job, spec = item
        start_attempt(job)
        self.running[job.index] = time.monotonic()
        mark_running(self.sweep)
        save_sweep(self.sweep)
        self.processes.start(job.index, spec)
        self.screen.report_job(self.sweep, job)
        return True

    def _update_progress(self) -> None:
        for index in self.running:
            job = self.sweep.jobs[index]
            self.progress[index] = Run(self.sweep.folder(job)).progress
            note_progress(job, self.progress[index])
            if not self.stop_signal.signum and index not in self.pruned and self.should_prune(job):
                self.pruned.add(index)
                self.processes.send_signal(index, signal.SIGINT)

    def _end(self, job_exit: JobExit) -> SweepJob:
        job = self.sweep.jobs[job_exit.job]
        job.seconds = round(job.seconds + time.monotonic() - self.running.pop(job.index), 3)
        job.ended = timestamp()
        self.progress.pop(job.index, None)
        sync_from_folder(self.sweep, job)
        if job.status != RunStatus.FINISHED:
            self._note_unfinished(job, job_exit.code)
        save_sweep(self.sweep)
        self.screen.report_job(self.sweep, job)
        return job

    def _note_unfinished(self, job: SweepJob, code: int) -> None:
        """Record the status of a job that ended before it had finished."""
        folder = self.sweep.folder(job)
        was_killed_by_user = self.stop_signal.signum and code == -signal.SIGKILL
        if job.index in self.pruned and code == ExitCode.INTERRUPTED:
            job.status = RunStatus.PRUNED
            update_run_info(folder, status=RunStatus.PRUNED)
        elif code == ExitCode.INTERRUPTED or was_killed_by_user:
            job.status = RunStatus.INTERRUPTED
        else:
            job.status = RunStatus.FAILED
            job.error = signal_error(code) or Run(folder).progress.error or f"its process {describe_exit(code)}"
            if not folder.is_dir():
                job.error = "its folder was deleted while it ran"
        note_job_end(folder, job.status, job.error)

    def _send_stops(self) -> None:
        """Send the running jobs a signal for each time that the user has asked to stop since the last call."""
        if self.stop_signal.stop_count and not self._sent_stops:
            self.screen.report_stop()
        while self._sent_stops < self.stop_signal.stop_count:
            signum = STOP_SIGNALS[min(self._sent_stops, len(STOP_SIGNALS) - 1)]
            self._sent_stops += 1
            for index in self.running:
                self.processes.send_signal(index, signum)


def signal_error(code: int) -> str | None:
    """The error of a process that was killed, and so could report nothing itself; None for other exit codes."""
    if code == SERVER_DIED:
        return "the process that it was forked from was killed"
    if code >= 0:
        return None
    advice = "; if memory ran out, lower trainer.batch_size, or -j" if code == -signal.SIGKILL else ""
    return f"its process {describe_exit(code)}{advice}"

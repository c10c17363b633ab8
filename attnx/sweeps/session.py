"""The running sweep: runs its jobs, several at a time, and stops them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from attnx.config.compose import compose
from attnx.errors import ExitCode, Stopped, UserError
from attnx.files.process import FORKING_ENVIRONMENT, available_cores, describe_exit
from attnx.registry.plugin_files import folders
from attnx.runs.info import DONE_STATUSES, RunStatus
from attnx.runs.run import JobProgress, Run
from attnx.runs.sweep import Sweep, SweepJob, overrides_key
from attnx.sweeps.gpus import VISIBLE_GPUS, choose_gpus, count_needed_gpus
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.processes import ForkServerProcesses
from attnx.sweeps.record import (
    note_job_end,
    note_progress,
    note_start,
    reject_other_config,
    save_sweep,
    sync_from_folder,
    timestamp,
)
from attnx.sweeps.summary import LiveTable
from attnx.training.stop_signal import StopSignal

# Time between two looks at the progress of the running jobs.
POLL_SECONDS = 0.25
# What the first, second and third Ctrl-C send to the jobs: save and end, end at once, be killed.
STOP_SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGKILL)
# The configurations of jobs by :func:`attnx.runs.sweep.overrides_key`.
Configs = Mapping[tuple[tuple[str, str], ...], Mapping[str, Any]]


@dataclass
class SweepSession:
    """The running sweep; as a context it notes the signals that ask it to stop, and ends its processes."""

    sweep: Sweep  #: the sweep
    configs: Configs  #: the configurations that are composed and checked already
    max_parallel: int  #: how many jobs run at a time
    fork_server: ForkServerProcesses | None = None  #: the process that jobs are forked from, if it was started already
    gpus: Sequence[str] = ()  #: the ids of those that jobs share, each as few others as there can be
    variables: Mapping[str, str] = field(default_factory=dict)  #: further environment variables of the jobs
    is_shared: bool = False  #: whether other sweeps use the fork server, too

    def __post_init__(self) -> None:
        self.screen = LiveTable(Console(), self.max_parallel)
        self.running: dict[int, float] = {}  # job -> when it was started
        self.gpus_of_jobs: dict[int, list[str]] = {}  # of those that run
        self.progress: dict[int, JobProgress] = {}
        self.pruned: set[int] = set()
        self.stop_signal = StopSignal(lambda signum: None)
        self._sent_stops = 0

    def __enter__(self) -> SweepSession:
        self.stop_signal.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the processes.

        Raises:
            Stopped: a signal asked the sweep to stop; the message says how to resume.
        """
        if self.fork_server is not None and not self.is_shared:
            self.fork_server.close()
        self.stop_signal.__exit__()
        is_stopped = self.stop_signal.signum or isinstance(error, KeyboardInterrupt)
        if is_stopped and not isinstance(error, Stopped):
            raise self._stop_error() from error

    def pending(self, jobs: Iterable[SweepJob]) -> Iterator[tuple[SweepJob, JobSpec]]:
        """Those jobs that are not done, each once, with their specs; a job that cannot be composed has failed."""
        for job in {job.index: job for job in jobs}.values():
            if job.status in DONE_STATUSES:
                continue
            try:
                config = self.configs.get(overrides_key(job.overrides))
                config = config or compose(job.overrides, self.sweep.config_dir)
                reject_other_config(self.sweep.folder(job), config)
            except UserError as error:
                job.status, job.error = RunStatus.FAILED, str(error)
                self.screen.report_job(self.sweep, job)
                continue
            environment = {**job_environment(self.max_parallel), **self.variables}
            config = {**config, "folder": str(self.sweep.folder(job))}
            yield job, JobSpec(config, job.overrides, environment, str(Path.cwd()))

    def run(
        self,
        jobs: Iterator[tuple[SweepJob, JobSpec]],
        on_job_end: Callable[[SweepJob], None] = lambda job: None,
        should_prune: Callable[[SweepJob], bool] = lambda job: False,
    ) -> None:
        """Run jobs until there are no more.

        Args:
            jobs: iterated when a job can start.
            on_job_end: called with each job that has ended.
            should_prune: called now and then for each running job; whether others are clearly better.

        Raises:
            Stopped: by Ctrl-C or another signal: the running jobs saved and ended; the message says how to resume.
        """
        processes = self.fork_server = self.fork_server or start_fork_server(job_environment(self.max_parallel))
        has_more = True
        with self.screen.live or nullcontext():
            while self.running or (has_more and not self.stop_signal.signum):
                while processes.is_ready and len(self.running) < self.max_parallel and not self.stop_signal.signum:
                    if not (has_more := self._start_next(jobs, processes)):
                        break
                self._send_stops(processes)
                if self.running or (has_more and not processes.is_ready):
                    for index, code in processes.wait(POLL_SECONDS):
                        on_job_end(self._end(self.sweep.jobs[index], code))
                for job in map(self.sweep.jobs.__getitem__, self.running):
                    self.progress[job.index] = Run(self.sweep.folder(job)).progress
                    note_progress(job, self.progress[job.index])
                    if not self.stop_signal.signum and job.index not in self.pruned and should_prune(job):
                        self.pruned.add(job.index)
                        processes.send_signal(job.index, signal.SIGINT)
                self.screen.show(self.sweep, self.progress)
        self.reject_stop()

    def reject_stop(self) -> None:
        """Raise Stopped if a signal asked the sweep to stop."""
        if self.stop_signal.signum:
            raise self._stop_error()

    def _stop_error(self) -> Stopped:
        return Stopped(f"resume with: {self.sweep.resume_command}", self.stop_signal.signum or signal.SIGINT)

    def _start_next(self, jobs: Iterator[tuple[SweepJob, JobSpec]], processes: ForkServerProcesses) -> bool:
        """Start the next job, and show it GPUs of its own unless the user's configuration chose them.

        Returns whether there was one.
        """
        if (pending := next(jobs, None)) is None:
            return False
        job, spec = pending
        self.running[job.index] = time.monotonic()
        note_start(self.sweep, [job])
        count = count_needed_gpus(spec.config, len(self.gpus))
        if count and spec.environment.get(VISIBLE_GPUS) == os.environ.get(VISIBLE_GPUS):
            chosen = self.gpus_of_jobs[job.index] = choose_gpus(self.gpus, self.gpus_of_jobs.values(), count)
            if len(self.gpus) > 1:
                self.screen.gpus[job.index] = ",".join(str(self.gpus.index(gpu)) for gpu in chosen)
            spec = spec._replace(environment={**spec.environment, VISIBLE_GPUS: ",".join(chosen)})
        processes.start(job.index, spec)
        self.screen.report_job(self.sweep, job)
        return True

    def _end(self, job: SweepJob, code: int) -> SweepJob:
        """Record how a job ended: by its folder, or by its exit code if it had not finished."""
        folder = self.sweep.folder(job)
        job.seconds = round(job.seconds + time.monotonic() - self.running.pop(job.index), 3)
        job.ended = timestamp()
        self.progress.pop(job.index, None)
        self.gpus_of_jobs.pop(job.index, None)
        sync_from_folder(self.sweep, job)
        was_killed_by_user = self.stop_signal.signum and code == -signal.SIGKILL
        if job.status != RunStatus.FINISHED:
            if job.index in self.pruned and code == ExitCode.INTERRUPTED:
                job.status = RunStatus.PRUNED
            elif code == ExitCode.INTERRUPTED or was_killed_by_user:
                job.status = RunStatus.INTERRUPTED
            else:
                job.status = RunStatus.FAILED
                job.error = signal_error(code) or job.error or f"its process {describe_exit(code)}"
                job.error = job.error if folder.is_dir() else "its folder was deleted while it ran"
            note_job_end(folder, job.status, job.error)
        save_sweep(self.sweep)
        self.screen.report_job(self.sweep, job)
        return job

    def _send_stops(self, processes: ForkServerProcesses) -> None:
        """Send the running jobs a signal for each time that the user has asked to stop since the last call."""
        if self.stop_signal.stop_count and not self._sent_stops:
            self.screen.report_stop()
        while self._sent_stops < self.stop_signal.stop_count:
            signum = STOP_SIGNALS[min(self._sent_stops, len(STOP_SIGNALS) - 1)]
            self._sent_stops += 1
            for index in self.running:
                processes.send_signal(index, signum)


def job_environment(max_parallel: int) -> dict[str, str]:
    """The environment of a job: this process's, absolute plug-in folders, and the job's share of the threads."""
    job_environment = {**os.environ, "ATTNX_PLUGINS": os.pathsep.join(map(str, folders()))}
    if max_parallel > 1:
        job_environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // max_parallel)))
    return job_environment


def start_fork_server(job_environment: dict[str, str]) -> ForkServerProcesses:
    """Start the process that jobs are forked from."""
    return ForkServerProcesses({**FORKING_ENVIRONMENT, **job_environment})


def signal_error(code: int) -> str | None:
    """The error of a process that was killed, and so could report nothing itself; None for other exit codes."""
    if code >= 0:
        return None
    advice = "; if memory ran out, lower trainer.batch_size, or -j" if code == -signal.SIGKILL else ""
    return f"its process {describe_exit(code)}{advice}"

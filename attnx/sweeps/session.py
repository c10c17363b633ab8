"""A sweep at work: what a launcher and a sweeper of Hydra's share, who know nothing of each other."""

from __future__ import annotations

import math
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from attnx.errors import Stopped
from attnx.registry.plugin_files import folders
from attnx.runs.sweep import Sweep, SweepJob, split_override
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.live_table import SweepScreen
from attnx.sweeps.pool import Pool
from attnx.sweeps.processes import ForkServerProcesses, Processes, SubprocessProcesses
from attnx.sweeps.record import take

DONE = ("finished", "pruned")
Configs = Mapping[tuple[str, ...], Mapping[str, Any]]


class SweepSession:
    """Holds what it takes to run a sweep's jobs; as a context, it ends the processes and gives the terminal back.

    Args:
        sweep: what is run.
        configs: the composed, checked configurations that are known already, by what was asked.
        side_by_side: how many jobs run at a time.
        lock: the open file that holds the folder.
        forked: the process that jobs are forked from, if it is there already.
    """

    def __init__(
        self,
        sweep: Sweep,
        configs: Configs,
        side_by_side: int,
        lock: int,
        forked: Processes | None = None,
    ) -> None:
        self.sweep, self.configs, self.side_by_side, self.lock = sweep, configs, side_by_side, lock
        self.screen = SweepScreen(Console(), side_by_side)
        self.fork, self.forked = True, forked
        self._processes: Processes | None = None

    def __enter__(self) -> SweepSession:
        """Become the one that is at work."""
        global _current
        _current = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End; who presses Ctrl-C while another launcher is at work is told how to go on, too."""
        global _current
        _current = None
        if self._processes is not None:
            self._processes.close()
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, Stopped):
            raise self._stopped(signal.SIGINT) from error

    def run(
        self,
        asked: Iterator[tuple[SweepJob, JobSpec]],
        ended: Callable[[SweepJob], None] = lambda job: None,
        hopeless: Callable[[SweepJob], bool] = lambda job: False,
    ) -> None:
        """Run jobs, as :meth:`attnx.sweeps.pool.Pool.run` does.

        Raises:
            Stopped: by Ctrl-C or another signal; the message says how to go on.
        """
        if self._processes is None:
            self._processes = self._started()
        with self.screen:
            pool = Pool(self.sweep, self._processes, self.side_by_side, self.screen, hopeless)
            whole = pool.run(asked, ended)
        if not whole:
            # A KeyboardInterrupt ends Hydra's loop over jobs; SystemExit would end it without a word.
            raise self._stopped(pool.asked)

    def _started(self) -> Processes:
        """What starts the jobs' processes."""
        if self.forked is None or not self.fork:
            return processes(self.fork, self.environment(), self.lock)
        self.forked.hold(self.lock)
        return self.forked

    def _stopped(self, number: int) -> Stopped:
        return Stopped(f"go on with: attnx resume {shlex.quote(str(self.sweep.path))}", number)

    def task(self, job: SweepJob, config: Mapping[str, Any], **environment: str) -> JobSpec:
        """What a job's process is to do."""
        named = {**config, "folder": str(self.sweep.folder(job))}
        return JobSpec(named, job.overrides, {**self.environment(), **environment}, str(Path.cwd()))

    def job(self, asked: Sequence[str]) -> SweepJob:
        """The job that was asked this."""
        return take(self.sweep, asked)

    def config(self, asked: Sequence[str]) -> Mapping[str, Any] | None:
        """The configuration of a job, if it was composed and checked before."""
        return self.configs.get(key(asked))

    def environment(self) -> dict[str, str]:
        """Of a job."""
        return environment(self.side_by_side)


def environment(side_by_side: int) -> dict[str, str]:
    """That of the command, the threads divided among so many jobs, plug-ins found from anywhere."""
    found = {**os.environ, "ATTNX_PLUGINS": os.pathsep.join(map(str, folders()))}
    if side_by_side > 1:
        found.setdefault("OMP_NUM_THREADS", str(max(1, cores() // side_by_side)))
    return found


def processes(fork: bool, environment: dict[str, str], lock: int) -> Processes:
    """What starts the jobs' processes."""
    # Threads of numpy's own would be there before the first fork; training does not use them.
    return (
        ForkServerProcesses({"OPENBLAS_NUM_THREADS": "1", **environment}, lock) if fork else SubprocessProcesses(lock)
    )


def key(asked: Sequence[str]) -> tuple[str, ...]:
    """What was asked, whatever the order."""
    return tuple(f"{name}={value}" for name, value in sorted(map(split_override, asked)))


def to_minimize(job: SweepJob) -> float:
    """A job's best validation value, negated where higher is better; no number if it has none."""
    if job.status != "finished" or job.best is None:
        return math.nan
    return -job.best if job.maximize else job.best


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def current() -> SweepSession:
    """The sweep at work.

    Raises:
        RuntimeError: there is none; a launcher or sweeper of attnx was used outside the command.
    """
    if _current is None:
        raise RuntimeError("attnx's launcher and sweepers work within `attnx -m` only")
    return _current


_current: SweepSession | None = None

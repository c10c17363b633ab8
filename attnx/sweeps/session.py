"""State of the running sweep, which Hydra's launchers and sweepers share."""

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
from attnx.sweeps.live_table import LiveTable
from attnx.sweeps.pool import Pool
from attnx.sweeps.processes import ForkServerProcesses, Processes, SubprocessProcesses
from attnx.sweeps.record import get_or_add_job
from attnx.training.distributed.child_process import available_cores

Configs = Mapping[tuple[str, ...], Mapping[str, Any]]


class SweepSession:
    """The running sweep; as a context it ends its processes.

    Args:
        sweep: the sweep.
        configs: the configurations that are composed and checked already, by :func:`overrides_key`.
        max_parallel: how many jobs run at a time.
        lock: file descriptor of the folder's lock file.
        fork_server: the process that jobs are forked from, if it was started already.
    """

    def __init__(
        self, sweep: Sweep, configs: Configs, max_parallel: int, lock: int, fork_server: Processes | None = None
    ) -> None:
        self.sweep, self.configs, self.max_parallel, self.lock = sweep, configs, max_parallel, lock
        self.screen = LiveTable(Console(), max_parallel)
        self.use_fork, self.fork_server = True, fork_server
        self._processes: Processes | None = None

    def __enter__(self) -> SweepSession:
        """Become the current session."""
        global _current
        _current = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the processes. Ctrl-C under another launcher becomes a message that says how to resume."""
        global _current
        _current = None
        if self._processes is not None:
            self._processes.close()
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, Stopped):
            raise self._stopped(signal.SIGINT) from error

    def run(
        self,
        jobs: Iterator[tuple[SweepJob, JobSpec]],
        on_job_end: Callable[[SweepJob], None] = lambda job: None,
        should_prune: Callable[[SweepJob], bool] = lambda job: False,
    ) -> None:
        """Run jobs, as :meth:`attnx.sweeps.pool.Pool.run` does.

        Raises:
            Stopped: by Ctrl-C or another signal; the message says how to resume.
        """
        if self._processes is None:
            self._processes = self._start_processes()
        with self.screen:
            pool = Pool(self.sweep, self._processes, self.max_parallel, self.screen, should_prune)
            has_run_all = pool.run(jobs, on_job_end)
        if not has_run_all:
            # A KeyboardInterrupt ends Hydra's loop over jobs; SystemExit would end it silently.
            raise self._stopped(pool.stop_signal.signum)

    def _start_processes(self) -> Processes:
        if self.fork_server is None or not self.use_fork:
            return start_processes(self.use_fork, job_environment(self.max_parallel), self.lock)
        self.fork_server.set_lock(self.lock)
        return self.fork_server

    def _stopped(self, signum: int) -> Stopped:
        return Stopped(f"resume with: attnx resume {shlex.quote(str(self.sweep.path))}", signum)

    def job_spec(self, job: SweepJob, config: Mapping[str, Any], **variables: str) -> JobSpec:
        """The spec of a job, with further environment variables."""
        environment = {**job_environment(self.max_parallel), **variables}
        return JobSpec({**config, "folder": str(self.sweep.folder(job))}, job.overrides, environment, str(Path.cwd()))

    def job(self, overrides: Sequence[str]) -> SweepJob:
        """The job with these overrides; a new one if there is none."""
        return get_or_add_job(self.sweep, overrides)

    def config(self, overrides: Sequence[str]) -> Mapping[str, Any] | None:
        """The configuration of a job, if it was composed and checked before."""
        return self.configs.get(overrides_key(overrides))


def job_environment(max_parallel: int) -> dict[str, str]:
    """The environment of a job: that of this process, absolute plug-in folders, and the job's share of the threads."""
    job_environment = {**os.environ, "ATTNX_PLUGINS": os.pathsep.join(map(str, folders()))}
    if max_parallel > 1:
        job_environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // max_parallel)))
    return job_environment


def start_processes(use_fork: bool, job_environment: dict[str, str], lock: int) -> Processes:
    """Start what starts the jobs' processes: a fork server, or a new Python a job."""
    if not use_fork:
        return SubprocessProcesses(lock)
    # numpy's threads would exist before the first fork; training does not use them.
    return ForkServerProcesses({"OPENBLAS_NUM_THREADS": "1", **job_environment}, lock)


def overrides_key(overrides: Sequence[str]) -> tuple[str, ...]:
    """Overrides in a canonical order."""
    return tuple(f"{name}={value}" for name, value in sorted(map(split_override, overrides)))


def objective(job: SweepJob) -> float:
    """What a search minimizes: a job's best validation value, negated where higher is better; NaN if it has none."""
    if job.status != "finished" or job.best is None:
        return math.nan
    return -job.best if job.maximize else job.best


def current_session() -> SweepSession:
    """The running sweep.

    Raises:
        RuntimeError: there is none, as where another program uses attnx's launcher or sweepers.
    """
    if _current is None:
        raise RuntimeError("attnx's launcher and sweepers work within `attnx -m` only")
    return _current


_current: SweepSession | None = None

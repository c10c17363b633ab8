"""Start the processes of a sweep's jobs, forks of a server that has imported everything, and report how they end."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, cast

from attnx.errors import RunFailed
from attnx.files.process import ChildProcess, interrupt_with_parent, spawn
from attnx.sweeps.job_process import JobSpec, ignore_slurm_signals, run_job

# Modules that runs import. None of them starts a thread, which a fork would not survive.
IMPORTED_MODULES = (
    "attnx.training.fit",
    "attnx.config.compose",
    "torch._dynamo",
    "torch.utils.data",
    "torch.optim.lr_scheduler",
)
SERVER_POLL_SECONDS = 0.02
SERVER_DIED = "the process that jobs are forked from was killed, or could not be started; run the same command again"
# Time that jobs have to save a checkpoint when the sweep has died.
ORPHAN_GRACE_SECONDS = 60.0


class ForkServerProcesses:
    """Forks jobs from a server process that has imported everything.

    Variables of its ``environment`` that concern threads must be the jobs', too.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.connection, server_end = multiprocessing.Pipe()
        with server_end:
            descriptor = server_end.fileno()
            self.server = spawn(partial(serve, descriptor), environment, [descriptor])
        self.jobs: set[int] = set()
        self.is_ready = False  # whether the server has imported everything

    def start(self, job: int, spec: JobSpec) -> None:
        """Start a job."""
        self.jobs.add(job)
        _send(self.connection, "start", job, spec)

    def send_signal(self, job: int, signum: int) -> None:
        """Send a signal to a job's process, unless it has ended."""
        _send(self.connection, "signal", job, int(signum))

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Wait for jobs to end, at most so long; return those that did with their exit codes, negative for signals.

        Raises:
            RunFailed: the server has died. Its jobs save and end.
        """
        deadline = time.monotonic() + seconds
        try:
            while self.connection.poll(max(0.0, deadline - time.monotonic())):
                job, value = self.connection.recv()
                if job is not None:
                    self.jobs.discard(job)
                    return [(job, value)]
                self.is_ready = True
        except (EOFError, OSError) as error:
            raise RunFailed(SERVER_DIED) from error
        return []

    def close(self) -> None:
        """Start no more jobs, and wait until all processes have ended."""
        self.connection.close()
        if not self.jobs:
            self.server.send_signal(signal.SIGKILL)  # it may still be importing
        self.server.wait()


def serve(connection: int) -> None:
    """Serve until the sweep closes the connection; the process of each job ends here, too.

    Args:
        connection: file descriptor of the connection to the sweep. It receives ``("start", job, spec)`` and
            ``("signal", job, signum)``, and sends ``(None, 0)`` once it is ready and ``(job, exit_code)`` when a job
            has ended.
    """
    spec = _ForkServer(Connection(connection)).serve()
    if spec is not None:
        code = run_job(spec)
        # It exits without tearing modules down, which takes as long as a small job.
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


class _ForkServer:
    def __init__(self, connection: Connection[Any, Any]) -> None:
        self.connection = connection
        self.jobs: dict[int, ChildProcess] = {}
        self.pid = os.getpid()

    def serve(self) -> JobSpec | None:
        """Return the job's spec in the process of a job, and None in the server once the sweep has gone."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the sweep handles it
        ignore_slurm_signals()
        _import_everything()
        _send(self.connection, None, 0)
        while True:
            try:
                while self.connection.poll(SERVER_POLL_SECONDS if self.jobs else None):
                    if (spec := self._handle(self.connection.recv())) is not None:
                        return spec
            except (EOFError, OSError):
                self._end_jobs()
                return None
            self._reap()

    def _handle(self, message: tuple[Any, ...]) -> JobSpec | None:
        """Handle a message; in the process of a job that it starts, return the spec."""
        match message:
            case ("signal", job, value) if job in self.jobs:
                self.jobs[job].send_signal(value)
            case ("start", job, spec):
                if pid := os.fork():
                    self.jobs[job] = ChildProcess(pid)
                    return None
                self.connection.close()
                os.setpgid(0, 0)  # so that what a job starts can be killed with it
                interrupt_with_parent(self.pid)
                return cast("JobSpec", spec)
        return None

    def _reap(self) -> None:
        for job, process in [*self.jobs.items()]:
            if process.has_ended():
                self._kill_group(process)  # what the job left running
                del self.jobs[job]
                _send(self.connection, job, process.exit_code)

    def _end_jobs(self) -> None:
        """Have the jobs save and end, and kill those that do not."""
        for process in self.jobs.values():
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + ORPHAN_GRACE_SECONDS
        while self.jobs and time.monotonic() < deadline:
            time.sleep(SERVER_POLL_SECONDS)
            self._reap()
        for process in self.jobs.values():
            self._kill_group(process)

    def _kill_group(self, process: ChildProcess) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _send(connection: Connection[Any, Any], *message: Any) -> None:
    with contextlib.suppress(OSError):  # the other end has gone, which the next one that reads notices
        connection.send(message)


def _import_everything() -> None:
    for module in IMPORTED_MODULES:
        importlib.import_module(module)
    from attnx.registry.source_scan import catalog

    for part in catalog().parts.values():
        if part.origin == "core":
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(part.module)
    gc.collect()
    gc.freeze()  # so that collecting garbage in a job does not copy the shared pages

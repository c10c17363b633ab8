"""Start the processes of a sweep's jobs, and report how they end: forks of a server, or a new Python a job."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from functools import partial
from multiprocessing import reduction
from typing import Any

from attnx.files.process import ChildProcess, spawn
from attnx.sweeps.fork_server import run_alone, serve
from attnx.sweeps.job_process import JobSpec

POLL_SECONDS = 0.05
# Exit code of a job whose fork server died; no process can have it.
SERVER_DIED = 256


class ForkServerProcesses:
    """Forks jobs from a server process that has imported everything; a server that was killed is replaced.

    Args:
        environment: environment variables of the server. Those that concern threads must be the jobs' too.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.lock: int | None = None
        self.jobs: set[int] = set()
        self._start_server()

    @property
    def is_ready(self) -> bool:
        """Whether the server has imported everything."""
        return self.threads > 0

    def _start_server(self) -> None:
        self.connection, server_end = multiprocessing.Pipe()
        with server_end:
            descriptor = server_end.fileno()
            self.server = spawn(partial(serve, descriptor), self.environment, [descriptor])
        self.threads = 0
        if self.lock is not None:
            self.set_lock(self.lock)

    def set_lock(self, lock: int) -> None:
        """Have later processes keep the lock file open."""
        self.lock = lock
        self._send("lock")
        with contextlib.suppress(OSError):  # the server has died, which `wait` notices
            reduction.send_handle(self.connection, lock, self.server.pid)

    def start(self, job: int, spec: JobSpec) -> None:
        """Start a job."""
        self.jobs.add(job)
        self._send("start", job, spec)

    def send_signal(self, job: int, signum: int) -> None:
        """Send a signal to a job's process, unless it has ended."""
        self._send("signal", job, int(signum))

    def _send(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # the server has died, which `wait` notices
            self.connection.send(message)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Wait for jobs to end, at most so long; return those that did with their exit codes, negative for signals."""
        deadline = time.monotonic() + seconds
        try:
            while self.connection.poll(max(0.0, deadline - time.monotonic())):
                job, value = self.connection.recv()
                if job is not None:
                    self.jobs.discard(job)
                    return [(job, value)]
                self.threads = value
        except (EOFError, OSError):
            return self._replace_server()
        return []

    def _replace_server(self) -> list[tuple[int, int]]:
        """Start another server; the jobs of the one that died ended with it.

        Raises:
            RuntimeError: it died before it was ready, so another one would, too.
        """
        if not self.is_ready:
            raise RuntimeError("the process that jobs are forked from ended while it imported what they need")
        exits = [(job, SERVER_DIED) for job in self.jobs]
        self.jobs.clear()
        self.connection.close()
        self.server.wait()
        self._start_server()
        return exits

    def close(self) -> None:
        """Start no more jobs, and wait until all processes have ended."""
        self.connection.close()
        if not self.jobs:
            self.server.send_signal(signal.SIGKILL)  # it may still be importing
        self.server.wait()


class SubprocessProcesses:
    """Starts a new Python for each job, which imports everything itself.

    Args:
        lock: file descriptor that all processes keep open.
    """

    is_ready = True

    def __init__(self, lock: int) -> None:
        self.lock = lock
        self.processes: dict[int, ChildProcess] = {}

    def start(self, job: int, spec: JobSpec) -> None:
        """Start a job."""
        self.processes[job] = spawn(partial(run_alone, os.getpid(), self.lock, spec), spec.environment, [self.lock])

    def send_signal(self, job: int, signum: int) -> None:
        """Send a signal to a job's process, unless it has ended."""
        if job in self.processes:
            self.processes[job].send_signal(signum)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Wait for jobs to end, at most so long; return those that did."""
        deadline = time.monotonic() + seconds
        while not any(process.has_ended() for process in self.processes.values()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        jobs = [job for job, process in self.processes.items() if process.exit_code is not None]
        return [(job, self.processes.pop(job).exit_code or 0) for job in jobs]

    def close(self) -> None:
        """Start no more jobs, interrupt the running ones, and wait until all processes have ended."""
        for process in self.processes.values():
            process.send_signal(signal.SIGINT)
        for process in self.processes.values():
            process.wait()


Processes = ForkServerProcesses | SubprocessProcesses

"""Starts the processes of a sweep's jobs and hears how they end: copies of one that has imported everything, or new."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from attnx.sweeps.job_process import JobSpec

# A job's process looks for modules where this one does.
PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from attnx.sweeps.fork_server import {0}; {0}({1})"
SECONDS = 0.05
# What the job of a server that died is said to have ended with: no process can.
LOST = 256


class Ended(NamedTuple):
    """A job whose process ended: with an exit code, or by a signal, whose number is then negative."""

    job: int
    code: int


class Processes(Protocol):
    """What starts processes."""

    @property
    def ready(self) -> bool:
        """Whether it can do so at once."""

    def hold(self, lock: int) -> None:
        """Have all processes from now on hold a file open."""

    def start(self, job: int, task: JobSpec) -> None:
        """Start a job."""

    def signal(self, job: int, number: int) -> None:
        """Send a job's process a signal, if it has not ended."""

    def wait(self, seconds: float) -> list[Ended]:
        """The jobs that ended; waits so long for the first."""

    def close(self) -> None:
        """Start no more."""


class ForkServerProcesses:
    """Forks jobs from a process that has imported everything; a new one takes the place of one that was killed.

    Args:
        environment: of that process; what a job's own says of threads must be said here too.
        lock: a file that all processes hold open; -1 for none.
    """

    def __init__(self, environment: dict[str, str], lock: int = -1) -> None:
        self.environment, self.lock = environment, lock
        self.running: dict[int, int | None] = {}  # job -> process, once it is known
        self._begin()

    @property
    def ready(self) -> bool:
        """Whether the server has imported everything."""
        return self.threads > 0

    def _begin(self) -> None:
        self.connection, theirs = socket.socketpair()
        kept = [theirs.fileno(), *([self.lock] if self.lock >= 0 else [])]
        self.server = _python(f"main({kept[0]}, {self.lock})", self.environment, kept)
        theirs.close()
        self.heard, self.threads = b"", 0

    def hold(self, lock: int) -> None:
        """Have all processes from now on hold a file open."""
        self.lock = lock
        with contextlib.suppress(OSError):  # as below
            socket.send_fds(self.connection, [b"\n"], [lock])

    def start(self, job: int, task: JobSpec) -> None:
        """Start a job."""
        self.running[job] = None
        self._say({"job": job, "task": task})

    def signal(self, job: int, number: int) -> None:
        """Send a job's process a signal, if it has not ended."""
        self._say({"job": job, "signal": int(number)})

    def wait(self, seconds: float) -> list[Ended]:
        """The jobs that ended; waits so long for the first."""
        until = time.monotonic() + seconds
        ended: list[Ended] = []
        while not ended and (left := until - time.monotonic()) > 0:
            if select.select([self.connection], [], [], left)[0]:
                ended = self._listen()
        return ended

    def _listen(self) -> list[Ended]:
        try:
            heard = self.connection.recv(1 << 16)
        except OSError:
            heard = b""
        if not heard:
            return self._lost()
        *lines, self.heard = (self.heard + heard).split(b"\n")
        ended = []
        for said in map(json.loads, lines):
            self.threads = said.get("threads", self.threads)
            if "process" in said:
                self.running[said["job"]] = said["process"]
            elif "ended" in said:
                self.running.pop(said["job"], None)
                ended.append(Ended(said["job"], said["ended"]))
        return ended

    def _lost(self) -> list[Ended]:
        """The server is gone, and its jobs with it.

        Raises:
            RuntimeError: it could not even begin.
        """
        if not self.ready:
            raise RuntimeError("the process that jobs are forked from ended while it imported what they need")
        lost = [Ended(job, LOST) for job in self.running]
        self.running.clear()
        self.connection.close()
        self.server.wait()
        self._begin()
        return lost

    def _say(self, value: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # that it is gone is noticed where it is listened to
            self.connection.sendall(json.dumps(value).encode() + b"\n")

    def close(self) -> None:
        """Start no more."""
        self.connection.close()
        if not self.running:
            self.server.kill()  # whatever it was importing
        self.server.wait()


class SubprocessProcesses:
    """Starts a new process a job, which imports everything itself.

    Args:
        lock: a file that all processes hold open; -1 for none.
    """

    def __init__(self, lock: int = -1) -> None:
        self.lock, self.ready = lock, True
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def hold(self, lock: int) -> None:
        """Have all processes from now on hold a file open."""
        self.lock = lock

    def start(self, job: int, task: JobSpec) -> None:
        """Start a job."""
        kept = [self.lock] if self.lock >= 0 else []
        process = _python(f"alone({self.lock})", dict(task.environment), kept, stdin=subprocess.PIPE)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as told:
            told.write(json.dumps(task).encode())
        self.running[job] = process

    def signal(self, job: int, number: int) -> None:
        """Send a job's process a signal, if it has not ended."""
        if job in self.running:
            self.running[job].send_signal(number)

    def wait(self, seconds: float) -> list[Ended]:
        """The jobs that ended; waits so long for the first."""
        until = time.monotonic() + seconds
        while True:
            ended = [
                Ended(job, process.returncode) for job, process in self.running.items() if process.poll() is not None
            ]
            if ended or time.monotonic() >= until:
                break
            time.sleep(SECONDS)
        for job, _ in ended:
            del self.running[job]
        return ended

    def close(self) -> None:
        """Start no more."""
        for process in self.running.values():
            process.send_signal(signal.SIGINT)
        for process in self.running.values():
            process.wait()


def _python(
    call: str, environment: dict[str, str], kept: Sequence[int], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """A Python of our own, out of reach of the terminal's Ctrl-C."""
    name, _, arguments = call.rstrip(")").partition("(")
    program = PROGRAM.format(name, arguments)
    command = [sys.executable, "-c", program, json.dumps([os.path.abspath(place) for place in sys.path])]
    return subprocess.Popen(command, env=environment, pass_fds=kept, start_new_session=True, stdin=stdin)

"""A process that has imported everything and forks one copy of itself a job, so that no job waits for imports."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import Any

from attnx.sweeps.job_process import JobSpec, answer, deaf
from attnx.training.distributed.parent_death import end_with

# What a run imports at one time or another. Nothing of it starts a thread, which a fork would not survive.
IMPORTED = (
    "attnx.training.fit",
    "attnx.config.compose",
    "torch._dynamo",
    "torch.utils.data",
    "torch.optim.lr_scheduler",
)
# Seconds that jobs have to save a checkpoint once nobody waits for them any more.
PATIENCE = 60.0


def main(connection: int, lock: int) -> None:
    """Serve until the sweep closes the connection; each job's process leaves through here too, as Python ends.

    Args:
        connection: a socket by which jobs are asked for, and by which it is told how they end; a line of JSON each.
        lock: a file that says that the sweep is alive, until the last of its processes is gone; -1 for none.
    """
    if lock >= 0:
        os.set_inheritable(lock, False)
    server = _Server(socket.socket(fileno=connection))
    task = server.serve()
    if task is not None:
        _leave(answer(task))


def alone(lock: int) -> None:
    """Do one job, which is read from standard input, in a process that was started for it."""
    if lock >= 0:
        os.set_inheritable(lock, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    end_with(os.getppid())
    sys.exit(answer(JobSpec(*json.loads(sys.stdin.read()))))


def _leave(code: int) -> None:
    """End in good order, but let the system take the modules apart: Python would need as long as a small job."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def threads() -> int:
    """How many threads of the system this process has; 1 where it cannot be told."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


class _Server:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.jobs: dict[int, int] = {}  # process -> job
        self.heard = b""
        self.process = os.getpid()

    def serve(self) -> JobSpec | None:
        """Return a job's task in the process of that job, and None in the server once the sweep is gone."""
        self.woken, wakes = os.pipe()
        for end in (self.woken, wakes):
            os.set_blocking(end, False)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the sweep hears it, and says what is to be done
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        deaf()
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        _import()
        self._tell({"ready": os.getpid(), "threads": threads()})
        while True:
            select.select([self.connection.fileno(), self.woken], [], [])
            self._reap()
            asked = self._hear()
            if asked is None:
                self._end_all()
                return None
            for line in asked:
                task = self._obey(line)
                if task is not None:
                    for end in (self.woken, wakes):
                        os.close(end)
                    return task

    def _hear(self) -> list[dict[str, Any]] | None:
        """What was asked for since; None if nobody is there to ask any more."""
        try:
            while select.select([self.connection], [], [], 0)[0]:  # recv_fds heeds no flag
                heard, files, *_ = socket.recv_fds(self.connection, 1 << 16, 1)
                if not heard:
                    return None
                self.heard += heard
                for file in files:  # that of the sweep, which is held open from here on
                    os.set_inheritable(file, False)
        except OSError:
            return None
        *lines, self.heard = self.heard.split(b"\n")
        return [json.loads(line) for line in lines if line]

    def _obey(self, asked: dict[str, Any]) -> JobSpec | None:
        if "signal" in asked:
            for process in [process for process, job in self.jobs.items() if job == asked["job"]]:
                os.kill(process, asked["signal"])  # not reaped yet, so it is ours
            return None
        process = os.fork()
        if process:
            self.jobs[process] = asked["job"]
            self._tell({"job": asked["job"], "process": process})
            return None
        return self._become(JobSpec(*asked["task"]))

    def _become(self, task: JobSpec) -> JobSpec:
        """In a job's process: forget the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.connection.close()
        os.setpgid(0, 0)  # so that what a job starts can be ended with it
        end_with(self.process)
        return task

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.woken, 1 << 10)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                process, status = ended
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process, signal.SIGKILL)  # what the job left behind
                if (job := self.jobs.pop(process, None)) is not None:
                    self._tell({"job": job, "ended": os.waitstatus_to_exitcode(status)})

    def _end_all(self) -> None:
        """Let the jobs save and end, and end those that do not."""
        for process in self.jobs:
            os.kill(process, signal.SIGINT)
        patience = time.monotonic() + PATIENCE
        while self.jobs and time.monotonic() < patience:
            select.select([self.woken], [], [], max(0.0, patience - time.monotonic()))
            self._reap()
        for process in self.jobs:
            os.killpg(process, signal.SIGKILL)

    def _tell(self, value: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            self.connection.sendall(json.dumps(value).encode() + b"\n")


def _import() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    from attnx.accel.malloc import keep_freed_memory
    from attnx.registry.source_scan import catalog

    keep_freed_memory()
    for part in catalog().parts.values():
        if part.origin == "core":
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(part.module)
    gc.collect()
    gc.freeze()  # so that collecting garbage in a job does not copy what is shared with the others

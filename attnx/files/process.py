"""The process itself, its CPU cores and its end with its parent; and its children: their start, signals and end."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attnx.errors import ExitCode

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PARENT_POLL_SECONDS = 1.0


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def read_cpuinfo() -> dict[str, str]:
    """The fields of the first processor in Linux's /proc/cpuinfo, such as ``model name``; empty elsewhere."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    fields = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


def interrupt_with_parent(parent: int, grace_seconds: float | None = None) -> None:
    """Have this process interrupted, as by Ctrl-C, when its parent has died.

    Linux does that itself (prctl); elsewhere a thread polls once a second. A thread ends the process if it does not end
    by itself within ``grace_seconds``, if given.
    """
    is_signaled = sys.platform == "linux" and not ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    if is_signaled and os.getppid() != parent:  # it died before prctl was called
        os.kill(os.getpid(), signal.SIGINT)
    if not is_signaled or grace_seconds is not None:
        thread_signal = 0 if is_signaled else signal.SIGINT  # 0 sends nothing
        threading.Thread(target=watch_parent, args=[parent, thread_signal, grace_seconds], daemon=True).start()


def watch_parent(parent: int, signum: int, grace_seconds: float | None = None) -> None:
    """Wait until the parent has died; then signal this process, and end it after ``grace_seconds``, if given."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signum)
    if grace_seconds is not None:
        time.sleep(grace_seconds)
        os._exit(ExitCode.INTERRUPTED)


# The child imports modules from where its parent does, then makes the call that comes by its input.
PROGRAM = "import pickle, sys; read = sys.stdin.buffer; sys.path[:] = pickle.load(read); sys.exit(pickle.load(read)())"
# For a process that forks, before it imports numpy: numpy's threads would exist before the first fork, and training
# does not use them.
FORKING_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


class ChildProcess:
    """A child process: the process id of a fork, or what ``subprocess`` started.

    Attributes:
        exit_code: the exit code once it has ended, negative if a signal ended it; None before.
    """

    def __init__(self, process: int | subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process if isinstance(process, int) else process.pid
        self.exit_code: int | None = None

    def has_ended(self) -> bool:
        """Look whether the process has ended, and reap it if so."""
        if self.exit_code is None:
            if isinstance(self._process, int):
                pid, status = os.waitpid(self._process, os.WNOHANG)
                self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
            else:
                self.exit_code = self._process.poll()
        return self.exit_code is not None

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless the process has ended."""
        if not self.has_ended():  # not reaped yet, so its id is still its own
            os.kill(self.pid, signum)

    def wait(self) -> None:
        """Block until a spawned process ends."""
        assert isinstance(self._process, subprocess.Popen)
        self.exit_code = self._process.wait()


def spawn(
    call: Callable[[], int | None], environment: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
) -> ChildProcess:
    """Start a new Python that makes a call, which returns the exit code, out of reach of the terminal's Ctrl-C.

    The environment is by default this process's; ``pass_fds`` are file descriptors that stay open in the child.
    """
    command, pipe = [sys.executable, "-c", PROGRAM], subprocess.PIPE
    process = subprocess.Popen(command, env=environment, pass_fds=pass_fds, start_new_session=True, stdin=pipe)
    assert process.stdin is not None
    path = [os.path.abspath(folder) for folder in sys.path]
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(pickle.dumps(path) + pickle.dumps(call))
    return ChildProcess(process)


def describe_exit(code: int) -> str:
    """Describe how a process ended.

    >>> describe_exit(3), describe_exit(-signal.SIGTERM)
    ('ended with exit code 3', 'was killed by SIGTERM')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    names = {int(signum): signum.name for signum in signal.Signals}
    cause = " (by hand, or by a system that ran out of memory)" if code == -signal.SIGKILL else ""
    return f"was killed by {names.get(-code, f'signal {-code}')}{cause}"

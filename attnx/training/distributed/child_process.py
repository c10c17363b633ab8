"""Child processes: start a new Python, signal it, and describe how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

# The child imports modules from where its parent does; what it calls, and with which arguments, comes by its input.
PROGRAM = (
    "import importlib, json, sys; sys.path[:], (module, function), arguments = json.load(sys.stdin); "
    "getattr(importlib.import_module(module), function)(*arguments)"
)


class ChildProcess:
    """A child process, forked or spawned.

    Args:
        process: the process id of a fork, or what ``subprocess`` started.

    Attributes:
        pid: the process id.
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
    target: str, arguments: Sequence[Any], environment: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
) -> ChildProcess:
    """Start a new Python that calls a function, out of reach of the terminal's Ctrl-C.

    Args:
        target: the function, as ``module:function``.
        arguments: its arguments; values that JSON can hold.
        environment: all environment variables of the child; left out, those of this process.
        pass_fds: file descriptors that stay open in the child.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        pass_fds=pass_fds,
        start_new_session=True,
        stdin=subprocess.PIPE,
    )
    assert process.stdin is not None
    path = [os.path.abspath(folder) for folder in sys.path]
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps([path, target.split(":"), arguments]).encode())
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


def available_cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

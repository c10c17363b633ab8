"""Child processes: start a new Python, signal it, and describe how it ended."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

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
    """Start a new Python that makes a call, out of reach of the terminal's Ctrl-C.

    Args:
        call: can be pickled; returns the exit code.
        environment: all environment variables of the child; by default this process's.
        pass_fds: file descriptors that stay open in the child.
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

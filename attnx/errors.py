"""The exceptions that users see: a single clear line, no traceback."""

from __future__ import annotations

import difflib
import errno
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Exit code of the command, of a sweep's job, and of a rank."""

    FINISHED = 0
    FAILED = 1
    USER_ERROR = 2
    INTERRUPTED = 128 + signal.SIGINT


class UserError(ValueError):
    """A mistake the user can mend: what is wrong, where, the near misses, what to do, in one line; exit code 2."""


class RunFailed(UserError):
    """A run that began well cannot go on: why, what is kept of it, and what to do, in one line; exit code 1."""


class Stopped(KeyboardInterrupt):
    """A command was asked to stop.

    Args:
        message: how to go on.
        signum: the signal that asked.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class Interrupted(Exception):
    """A run was asked to stop, and can be resumed.

    Args:
        folder: the run folder.
        signum: the signal that asked.
    """

    def __init__(self, folder: Path, signum: int = signal.SIGINT) -> None:
        super().__init__(str(folder))
        self.folder, self.signum = folder, signum


def exit_code_for(error: BaseException) -> ExitCode:
    """The exit code of a process that an error ends.

    >>> exit_code_for(UserError("trainer.devices=0")), exit_code_for(KeyboardInterrupt())
    (<ExitCode.USER_ERROR: 2>, <ExitCode.INTERRUPTED: 130>)
    """
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return ExitCode.INTERRUPTED
    is_mistake = isinstance(error, UserError) and not isinstance(error, RunFailed)
    return ExitCode.USER_ERROR if is_mistake else ExitCode.FAILED


def suggest(word: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean a or b?"`` for the candidates closest to ``word``, or all of them if none is close."""
    choices = sorted(candidates)
    folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), folded, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(folded[choice] for choice in close)}?"
    return f"; choose from {', '.join(choices)}" if choices else ""


MAX_MESSAGE_LENGTH = 200
"""Letters of another program's message that are shown."""


def in_a_line(error: BaseException) -> str:
    r"""What an error is about, in a line: what a compiler printed, if one did.

    >>> import subprocess
    >>> in_a_line(subprocess.CalledProcessError(1, "cc", stderr=b"In file seven.c:\nseven.c:1:1: error: no C\n"))
    'seven.c:1:1: error: no C'
    >>> in_a_line(KeyError())
    'KeyError'
    """
    printed = getattr(error, "stderr", None) or str(error)
    text = printed.decode(errors="replace") if isinstance(printed, bytes) else str(printed)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    line = next((line for line in lines if re.search(r"error[:(]", line, re.IGNORECASE)), lines[0])
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"


def reject_duplicates(knob: str, names: Sequence[str], what: str) -> None:
    """Refuse a list that names something more than once.

    Args:
        knob: what holds it, for the message.
        names: the list.
        what: what it names, one of them.

    Raises:
        UserError: it does.
    """
    if len(set(names)) < len(names):
        raise UserError(f"{knob}=[{','.join(names)}]: name each {what} once")


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EROFS, errno.ENOTDIR)
EITHER = (errno.EACCES, errno.EPERM, errno.EIO)  # also of what was to be read


def exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, and those that led to it."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        yield error
        visited.add(id(error))
        error = error.__cause__ or error.__context__


def out_of_memory(error: BaseException) -> bool:
    """Whether there was not enough: Python's own exception, torch's for a GPU, or what torch says of a CPU.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    return any(map(_out_of_memory, exception_chain(error)))


def _out_of_memory(error: BaseException) -> bool:
    named = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    said = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or named or said


def cannot_write(error: BaseException, place: str = "") -> str:
    """Which file could not be written, why, and how to mend it; nothing if that was not the matter.

    Args:
        error: what was raised.
        place: said where the exception does not say which file it was.

    >>> cannot_write(OSError(errno.ENOSPC, "No space left on device", "one/run.json"))
    'one/run.json: cannot write (No space left on device); free some space'
    """
    for one in exception_chain(error):
        if isinstance(one, OSError) and one.errno in (*FULL, *CLOSED, *EITHER):
            named = f"{one.filename or place}: " if one.filename or place else ""
            what = "cannot read or write" if one.errno in EITHER else "cannot write"
            mend = "free some space" if one.errno in FULL else "let it be written"
            return f"{named}{what} ({one.strerror}); {mend}"
    return ""

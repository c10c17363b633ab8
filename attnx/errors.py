"""The exceptions that users see: a single clear line, no traceback."""

from __future__ import annotations

import difflib
import errno
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NOT_WRITABLE = (errno.EROFS, errno.ENOTDIR)
USERS_MISTAKES = (*NOT_WRITABLE, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
NO_PERMISSION = (errno.EACCES, errno.EPERM)
NO_ACCESS = (*NO_PERMISSION, errno.EIO)  # for reading or writing


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
    """A signal asked a command to stop; the message says how to go on."""

    def __init__(self, message: str, signum: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signum = signum


class Interrupted(Stopped):
    """A signal asked a run to stop; the message says how to resume it."""


def exit_code_for(error: BaseException) -> ExitCode:
    """The exit code of a process that an error ends; a folder that cannot be written is a mistake, a full disk is not.

    >>> exit_code_for(UserError("trainer.devices=0")), exit_code_for(KeyboardInterrupt())
    (<ExitCode.USER_ERROR: 2>, <ExitCode.INTERRUPTED: 130>)
    >>> exit_code_for(OSError(errno.EROFS, "Read-only file system"))
    <ExitCode.USER_ERROR: 2>
    """
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    cause = error.__cause__ if isinstance(error, UserError) else error
    if isinstance(cause, OSError) and cause.errno in DISK_FULL:
        return ExitCode.FAILED
    is_refused = isinstance(error, OSError) and error.errno in USERS_MISTAKES
    is_mistake = is_refused or (isinstance(error, UserError) and not isinstance(error, RunFailed))
    return ExitCode.USER_ERROR if is_mistake else ExitCode.FAILED


@contextmanager
def report_place(place: str) -> Iterator[None]:
    """Put a place, such as a file and a key in it, before the message of a UserError that a block raises."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


@contextmanager
def report_interrupt(message: str) -> Iterator[None]:
    """Have a Ctrl-C in a block say what was kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(message) from None


def suggest(word: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean a or b?"`` for the candidates closest to ``word``, or all of them if none is close.

    More than 200, such as the columns of a wide table, say nothing to a reader.
    """
    choices = sorted(set(candidates))
    folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), folded, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(folded[choice] for choice in close)}?"
    return f"; choose from {', '.join(choices)}" if 0 < len(choices) <= MAX_LISTED else ""


MAX_LISTED = 200
"""Names in a message."""
MAX_SHOWN_LENGTH = 40
"""Letters of a name that is too long that are shown."""
MAX_MESSAGE_LENGTH = 200
"""Letters of another program's message that are shown."""


def error_text(error: BaseException) -> str:
    """What an error says, even if its ``__str__`` raises.

    >>> class Mute(Exception):
    ...     def __str__(self):
    ...         raise SystemExit
    >>> error_text(Mute()), error_text(KeyError("width"))
    ('(its __str__ raises SystemExit)', "'width'")
    """
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as second:
        return f"(its __str__ raises {type(second).__name__})"


def type_and_text(error: BaseException) -> str:
    r"""The type of an error and what it says, in one line.

    >>> type_and_text(RuntimeError("two\nlines")), type_and_text(SystemExit())
    ('RuntimeError: two lines', 'SystemExit')
    """
    return ": ".join(filter(None, (type(error).__name__, " ".join(error_text(error).split()))))


def one_line(error: BaseException) -> str:
    """What an error says in one line, or its type."""
    return " ".join(error_text(error).split()) or type(error).__name__


def in_a_line(error: BaseException) -> str:
    r"""What an error is about, in a line: what a compiler printed, if one did.

    >>> import subprocess
    >>> in_a_line(subprocess.CalledProcessError(1, "cc", stderr=b"In file seven.c:\nseven.c:1:1: error: no C\n"))
    'seven.c:1:1: error: no C'
    >>> in_a_line(KeyError())
    'KeyError'
    """
    printed = getattr(error, "stderr", None) or error_text(error)
    text = printed.decode(errors="replace") if isinstance(printed, bytes) else str(printed)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    line = next((line for line in lines if re.search(r"error[:(]", line, re.IGNORECASE)), lines[0])
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"


def check_words(words: object, what: str, example: str) -> None:
    """Check that words are a list of strings; of one string each letter would be taken for a word.

    Raises:
        UserError: they are not; it says ``what`` to list, with an example.
    """
    if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{words!r}: give a list of {what}, as in {example}")


def reject_duplicates(option: str, names: Sequence[str], kind: str) -> None:
    """Refuse a list of an option that names something, such as a ``language``, more than once."""
    if len(set(names)) < len(names):
        raise UserError(f"{option}=[{','.join(names)}]: name each {kind} once")


def exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, then its cause or context, and so on."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        yield error
        visited.add(id(error))
        error = error.__cause__ or error.__context__


# The first comes from a CPU, the second from a GPU whose memory other processes take.
OUT_OF_MEMORY_TEXTS = "can't allocate memory", "CUDA error: out of memory"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's ``MemoryError``, torch's exception for a GPU, or its message for a CPU.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    return any(
        {"MemoryError", "OutOfMemoryError"} & {kind.__name__ for kind in type(cause).__mro__}
        or (isinstance(cause, RuntimeError) and any(text in error_text(cause) for text in OUT_OF_MEMORY_TEXTS))
        for cause in exception_chain(error)
    )


def explain_long_name(error: BaseException) -> str:
    """Which name of a file is too long, and what to do; empty if that was not the cause.

    >>> explain_long_name(OSError(errno.ENAMETOOLONG, "File name too long", "one" * 100))
    'oneoneoneoneoneoneoneoneoneoneoneoneoneo…: the name of a file is too long; choose a shorter one'
    """
    if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
        return ""
    name = str(error.filename)
    shown = name if len(name) <= MAX_SHOWN_LENGTH else f"{name[:MAX_SHOWN_LENGTH]}…"
    return f"{shown}: the name of a file is too long; choose a shorter one"


def explain_write_error(error: BaseException, path: str = "") -> str:
    """Which file could not be written, why, and what to do; empty if that was not the cause.

    ``path`` is shown where the exception has no file name.

    >>> explain_write_error(OSError(errno.ENOSPC, "No space left on device", "one/run.json"))
    'one/run.json: cannot write (No space left on device); free some space'
    """
    for cause in exception_chain(error):
        if isinstance(cause, OSError) and cause.errno in (*DISK_FULL, *NOT_WRITABLE, *NO_ACCESS):
            file = f"{cause.filename or path}: " if cause.filename or path else ""
            failure = "cannot read or write" if cause.errno in NO_ACCESS else "cannot write"
            advice = "free some space" if cause.errno in DISK_FULL else "make it writable"
            return f"{file}{failure} ({cause.strerror}); {advice}"
    return ""

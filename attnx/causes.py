"""Tells from an exception what lies behind it, where a user can mend that: memory that ran out, a disk that is full."""

from __future__ import annotations

import errno
from collections.abc import Iterator

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EROFS, errno.ENOTDIR)
EITHER = (errno.EACCES, errno.EPERM, errno.EIO)  # also of what was to be read


def behind(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def out_of_memory(error: BaseException) -> bool:
    """Whether there was not enough: Python's own exception, torch's for a GPU, or what torch says of a CPU.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    return any(map(_out_of_memory, behind(error)))


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
    for one in behind(error):
        if isinstance(one, OSError) and one.errno in (*FULL, *CLOSED, *EITHER):
            named = f"{one.filename or place}: " if one.filename or place else ""
            what = "cannot read or write" if one.errno in EITHER else "cannot write"
            mend = "free some space" if one.errno in FULL else "let it be written"
            return f"{named}{what} ({one.strerror}); {mend}"
    return ""

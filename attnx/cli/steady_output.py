"""Ignore a closed pipe or terminal on standard output, so that ``attnx | head``, or a logout, does not end a run."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, TypeVar, cast

T = TypeVar("T")
# The errors of a pipe without a reader, and of a terminal that was closed.
LOST_READER = (errno.EPIPE, errno.EIO)


@contextlib.contextmanager
def steady_output() -> Iterator[None]:
    """Write nothing more once standard output cannot be written, as after ``attnx | head``, and go on."""
    stream = sys.stdout
    if stream is None:  # the command was started without one
        yield
        return
    sys.stdout = cast("TextIO", _SteadyStream(stream))
    try:
        yield
    finally:
        sys.stdout = stream


class _SteadyStream:
    """A stream whose writes never fail for want of a reader."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if anybody reads."""
        return self._try(lambda: self._stream.write(text), len(text))

    def flush(self) -> None:
        """Flush, if anybody reads."""
        self._try(self._stream.flush, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, write: Callable[[], T], result: T) -> T:
        try:
            return write()
        except OSError as error:
            if error.errno not in LOST_READER:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            return result

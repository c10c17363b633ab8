"""The exceptions that users see: a single clear line, no traceback."""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path


class UserError(ValueError):
    """A mistake the user can mend: what is wrong, where, the near misses, what to do, in one line; exit code 2."""


class RunFailed(UserError):
    """A run that began well cannot go on: why, what is kept of it, and what to do, in one line; exit code 1."""


class Stopped(KeyboardInterrupt):
    """A command was asked to stop; its text says how to go on.

    Args:
        told: that.
        number: the signal by which it was asked.
    """

    def __init__(self, told: str, number: int) -> None:
        super().__init__(told)
        self.number = number


class Interrupted(Exception):
    """A run was asked to stop; ``folder`` holds what is needed to go on.

    Args:
        folder: the run's.
        number: the signal by which it was asked.
    """

    def __init__(self, folder: Path, number: int = signal.SIGINT) -> None:
        super().__init__(str(folder))
        self.folder, self.number = folder, number


def near_misses(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean a or b?"`` for the known words closest to ``word``, or all of them if none is close."""
    choices = sorted(known)
    folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), folded, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(folded[choice] for choice in close)}?"
    return f"; choose from {', '.join(choices)}" if choices else ""


LONGEST = 200
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
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def refuse_twice(knob: str, names: Sequence[str], what: str) -> None:
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

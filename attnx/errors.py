"""The one exception that users see: a single clear line, no traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake the user can mend: what is wrong, where, the near misses, what to do, in one line."""


def near_misses(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean a or b?"`` for the known words closest to ``word``, or all of them if none is close."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; choose from {', '.join(choices)}" if choices else ""

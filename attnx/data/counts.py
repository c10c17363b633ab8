"""Options that are one count or several: ``5``, ``[5, 8]``, ``5-50``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attnx.errors import UserError

MAX_COUNT: Final = 999_999


def parse_counts(option: str, value: int | Sequence[int] | str, unit: str) -> list[int]:
    """Return the counts that ``task.option`` names: a number, a list of them, or a range such as ``5-50``.

    Raises:
        UserError: the value is none of these, or a count is 0 or more than ``MAX_COUNT``.
    """
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", value)
        counts = list(range(int(match[1]), int(match[2] or match[1]) + 1)) if match else []
    else:
        counts = [value] if isinstance(value, int) else list(value)
    if not counts or min(counts) < 1 or max(counts) > MAX_COUNT:
        expected = f"a number of {unit} up to {MAX_COUNT:,}, a list of them, or a range: 5-50"
        raise UserError(f"task.{option}={value!s:.80}: expected {expected}")
    return counts

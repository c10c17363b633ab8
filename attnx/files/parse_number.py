"""Numbers in texts and options, and counts in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from attnx.errors import UserError

MAX_DIGITS: Final = 18  # of a number that fits 64 bits


def is_number(field: Any) -> bool:
    """Whether a field of a table, a text or what a Parquet file holds, is a number; Python's underscores are of none.

    >>> is_number("-1e3"), is_number("three"), is_number("1_000")
    (True, False, False)
    """
    try:
        float(field)
    except (TypeError, ValueError):
        return False
    return not (isinstance(field, str) and "_" in field)


def is_count(text: str) -> bool:
    """Whether a text is a whole number from 1 that fits 64 bits.

    >>> is_count("12"), is_count("0"), is_count("9" * 5000)
    (True, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS and int(text) > 0


def count_phrase(count: int, noun: str) -> str:
    """A count with its noun.

    >>> count_phrase(1, "setting"), count_phrase(1200, "setting"), count_phrase(0, "setting")
    ('1 setting', '1,200 settings', '0 settings')
    """
    return f"{count:,} {noun}" + "s" * (count != 1)


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

"""Numbers in texts, and counts in sentences."""

from __future__ import annotations


def is_number(text: str) -> bool:
    """Whether a text is a number.

    >>> is_number("-1e3"), is_number("three")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def count_phrase(count: int, noun: str) -> str:
    """A count with its noun.

    >>> count_phrase(1, "setting"), count_phrase(1200, "setting"), count_phrase(0, "setting")
    ('1 setting', '1,200 settings', '0 settings')
    """
    return f"{count:,} {noun}" + "s" * (count != 1)

"""Numbers as people write them."""

from __future__ import annotations


def is_number(text: str) -> bool:
    """Whether a text is one.

    >>> is_number("-1e3"), is_number("three")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def count_of(number: int, noun: str) -> str:
    """How many there are of something.

    >>> count_of(1, "setting"), count_of(1200, "setting"), count_of(0, "setting")
    ('1 setting', '1,200 settings', '0 settings')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)

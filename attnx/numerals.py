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

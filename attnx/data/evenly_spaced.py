"""Chooses some of many, evenly."""

from __future__ import annotations


def evenly(count: int, most: int) -> list[int]:
    """At most so many of ``count`` places, ascending and evenly apart: the first and the last are among them.

    >>> evenly(9, 3), evenly(2, 3), evenly(0, 3)
    ([0, 4, 8], [0, 1], [])
    """
    if count <= most:
        return list(range(count))
    return [round(number * (count - 1) / (most - 1)) for number in range(most)]

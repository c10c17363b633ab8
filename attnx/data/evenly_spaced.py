"""Evenly spaced indices."""

from __future__ import annotations


def evenly_spaced_indices(count: int, limit: int) -> list[int]:
    """At most ``limit`` of ``count`` indices, ascending and evenly spaced, the first and the last among them.

    >>> evenly_spaced_indices(9, 3), evenly_spaced_indices(2, 3), evenly_spaced_indices(0, 3)
    ([0, 4, 8], [0, 1], [])
    """
    if count <= limit:
        return list(range(count))
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]

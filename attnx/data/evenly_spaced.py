"""Evenly spaced indices."""

from __future__ import annotations

from collections.abc import Sequence, Sized


def evenly_spaced_indices(count: int, limit: int) -> list[int]:
    """At most ``limit`` of ``count`` indices, ascending and evenly spaced, the first and the last among them.

    >>> evenly_spaced_indices(9, 3), evenly_spaced_indices(2, 3), evenly_spaced_indices(0, 3)
    ([0, 4, 8], [0, 1], [])
    """
    if count <= limit:
        return list(range(count))
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]


def evenly_by_length(items: Sequence[Sized], limit: int) -> list[int]:
    """The indices of at most ``limit`` items, ascending: evenly from the shortest item to the longest.

    >>> evenly_by_length(["xxx", "xxxxx", "x", "xx"], 2)
    [1, 2]
    """
    by_length = sorted(range(len(items)), key=lambda index: len(items[index]))
    return sorted(by_length[index] for index in evenly_spaced_indices(len(items), limit))

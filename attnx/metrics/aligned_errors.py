"""Where two matrices can be compared: the steps that both of them have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.floating[Any]]


def differences(written: Sequence[Rows], references: Sequence[Rows]) -> npt.NDArray[np.float64]:
    """Written less reference (n,), number by number, of the steps that both have: those that one lacks are left out.

    So are numbers that are missing (NaN) in the reference.

    Raises:
        ValueError: the two lists differ in length.

    >>> differences([np.array([[2.0], [3.0]])], [np.array([[2.5], [3.0], [7.0]])]).tolist()
    [-0.5, 0.0]
    """
    found = [np.zeros(0)]
    for one, other in zip(written, references, strict=True):
        steps = min(len(one), len(other))
        there = ~np.isnan(other[:steps])
        found.append(one[:steps].astype(np.float64)[there] - other[:steps][there])
    return np.concatenate(found)

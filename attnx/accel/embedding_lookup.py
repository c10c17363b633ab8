"""Inputs that are rows of a table, as embedded symbols are, kept as what they are."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Lookup(NamedTuple):
    """Rows of a table, and beside each what is in no table.

    What a linear map makes of the rows is rows of another table, so that it need not be applied to each that is found.

    Attributes:
        table: (n, e).
        ids: (b, t) int64, which row it is at each step.
        beside: tensors (b, t, k).
    """

    table: Tensor
    ids: Tensor
    beside: tuple[Tensor, ...] = ()

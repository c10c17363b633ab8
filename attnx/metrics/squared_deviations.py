"""Sum of squared deviations from the mean, from sums that add up over examples."""

from __future__ import annotations

import torch
from torch import Tensor

MIN_RELATIVE_DEVIATION = 1e-12
"""Smaller results, relative to the sum of squares, are rounding errors."""


def squared_deviations(count: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Sum of squared deviations from the mean, given the count, the sum and the sum of squares.

    It is 0 for equal numbers and for none.

    >>> squared_deviations(torch.tensor(2), torch.tensor(4.0), torch.tensor(10.0)).item()  # of 1 and 3
    2.0
    """
    deviations = squares - total**2 / count
    return torch.where(deviations > MIN_RELATIVE_DEVIATION * squares, deviations, 0.0)

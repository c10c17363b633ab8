"""How far numbers are from their mean, from sums that add up over examples."""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = 1e-12
"""What is below this share of the squares is what rounding makes of nothing."""


def spread(count: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """The sum of squared distances from the mean, from how many numbers there are, their sum and that of their squares.

    It is 0 of numbers that are all alike, and of none.

    >>> spread(torch.tensor(2), torch.tensor(4.0), torch.tensor(10.0)).item()  # of 1 and 3
    2.0
    """
    found = squares - total**2 / count
    return torch.where(found > ROUNDING * squares, found, 0.0)

"""A linear recurrence over the positions of a row, by a scan in which all positions are computed at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def decay_products(decays: Tensor) -> list[Tensor]:
    """What :func:`linear_scan` needs of the decays (..., m): their products over 1, 2, 4, ... consecutive positions.

    Of each product the positions are left out that have too few before them.
    """
    products, span = [], 1
    while span < decays.shape[-1]:
        products.append(decays[..., span:])
        decays = torch.cat([decays[..., :span], decays[..., span:] * decays[..., :-span]], -1)
        span *= 2
    return products


def linear_scan(inputs: Tensor, products: Sequence[Tensor]) -> Tensor:
    """``y_j = decay_j y_{j-1} + x_j`` over the last axis, y before the first position being 0.

    It takes log2(m) rounds, in each of which a position adds the decayed sum of as many positions before it as it has
    summed already. Nothing is divided and no logarithm is taken, so that decays and inputs may be 0 and their
    products may underflow: the result has the rounding of the recurrence.

    Args:
        inputs: (..., m), the x.
        products: of the decays, by :func:`decay_products`; the first decay is not read.

    >>> linear_scan(torch.tensor([1.0, 2.0, 3.0]), decay_products(torch.tensor([9.0, 0.5, 0.1])))
    tensor([1.0000, 2.5000, 3.2500])
    """
    for power, product in enumerate(products):
        span = 2**power
        later = torch.addcmul(inputs[..., span:], product, inputs[..., :-span])
        inputs = torch.cat([inputs[..., :span], later], -1)
    return inputs

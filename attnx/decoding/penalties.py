"""By what a beam's hypotheses of unlike length are made alike: penalties of length and of coverage."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Length = Literal["none", "gnmt", "average"]
FLOOR = 1e-9
"""The least that a position counts as read: weights may be 0, and their logarithm is to be a number."""


def length_penalty(name: Length, alpha: float, steps: Tensor) -> Tensor:
    """By what the log-probability of so many steps, EOS included, is divided; it never falls as steps grow.

    ``gnmt`` is equation 14 of Wu et al. 2016, https://arxiv.org/abs/1609.08144: ((5 + steps) / 6)^alpha.

    >>> length_penalty("gnmt", 0.5, torch.tensor([1, 19]))
    tensor([1., 2.])
    """
    if name == "none":
        return torch.ones_like(steps, dtype=torch.get_default_dtype())
    return ((5 + steps) / 6) ** alpha if name == "gnmt" else steps.to(torch.get_default_dtype())


def score_coverage(covered: Tensor, present: Tensor) -> Tensor:
    """How much of the source was left unread, 0 or less: sum_s log(min(c_s, 1)), by the same equation.

    Args:
        covered: (..., s) the sum of the weights that each position had.
        present: (..., s) bool, which positions there are.
    """
    return covered.clamp(FLOOR, 1.0).log().masked_fill(~present, 0.0).sum(-1)

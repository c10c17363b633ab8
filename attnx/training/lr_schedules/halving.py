"""The learning-rate schedule ``halving``."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnx.registry import PositiveInt, register


@register("lr_schedule", "halving")
def halving(optimizer: Optimizer, step_size: PositiveInt = 10_000) -> LambdaLR:
    """Halve the rate after every ``step_size`` steps; needs no known end.

    Formula: ``lr(t) = lr 2^-floor((t - 1) / step_size)``
    Source: Henaff et al. 2017, section 5, https://arxiv.org/abs/1612.03969
    """
    return LambdaLR(optimizer, lambda step: 0.5 ** (step // step_size))

"""The learning-rate schedule ``inverse_sqrt``."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnx.registry import NonNegativeInt, register


@register("lr_schedule", "inverse_sqrt")
def inverse_sqrt(optimizer: Optimizer, warmup_steps: NonNegativeInt = 400) -> LambdaLR:
    """Rise over the warm-up, then fall with the square root of the step; needs no known end.

    Formula: ``lr(t) = lr min(t / warmup_steps, sqrt(warmup_steps / t))``
    Source: Vaswani et al. 2017, section 5.3, https://arxiv.org/abs/1706.03762
    """
    peak = max(warmup_steps, 1)
    return LambdaLR(optimizer, lambda step: min((step + 1) / peak, math.sqrt(peak / (step + 1))))

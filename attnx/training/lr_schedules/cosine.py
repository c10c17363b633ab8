"""The learning-rate schedule ``cosine``."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnx.registry import NonNegativeInt, Probability, register
from attnx.training.lr_schedules import Progress, warm_up


@register("lr_schedule", "cosine")
def cosine(
    optimizer: Optimizer, progress: Progress, warmup_steps: NonNegativeInt = 100, min_lr_ratio: Probability = 0.0
) -> LambdaLR:
    """Fall along half a cosine to ``min_lr_ratio`` after the last step T.

    Formula: ``lr(t) = lr min(1, t / warmup_steps) (min_lr_ratio + (1 - min_lr_ratio) (1 + cos(pi (t - 1) / T)) / 2)``
    Source: Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983
    """

    def factor(step: int) -> float:
        remaining = 0.5 * (1 + math.cos(math.pi * progress(step)))
        return warm_up(step, warmup_steps) * (min_lr_ratio + (1 - min_lr_ratio) * remaining)

    return LambdaLR(optimizer, factor)

"""The learning-rate schedule ``constant``."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnx.registry import NonNegativeInt, register
from attnx.training.lr_schedules import warm_up


@register("lr_schedule", "constant")
def constant(optimizer: Optimizer, warmup_steps: NonNegativeInt = 0) -> LambdaLR:
    """The same learning rate throughout, after a linear warm-up if asked for.

    Formula: ``lr(t) = lr min(1, t / warmup_steps)``
    Source: the plain choice; warm-up as in Goyal et al. 2017, https://arxiv.org/abs/1706.02677
    """
    return LambdaLR(optimizer, lambda step: warm_up(step, warmup_steps))

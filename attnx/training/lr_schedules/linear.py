"""The learning-rate schedule ``linear``."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnx.registry import NonNegativeInt, Probability, register
from attnx.training.lr_schedules import Progress, warm_up


@register("lr_schedule", "linear")
def linear(
    optimizer: Optimizer, progress: Progress, warmup_steps: NonNegativeInt = 100, min_lr_ratio: Probability = 0.0
) -> LambdaLR:
    """Fall in a straight line to ``min_lr_ratio`` after the last step T; the best general choice for a known budget.

    Formula: ``lr(t) = lr min(1, t / warmup_steps) (min_lr_ratio + (1 - min_lr_ratio) (1 - (t - 1) / T))``
    Source: Defazio et al. 2023, https://arxiv.org/abs/2310.07831
    """

    def factor(step: int) -> float:
        return warm_up(step, warmup_steps) * (min_lr_ratio + (1 - min_lr_ratio) * (1 - progress(step)))

    return LambdaLR(optimizer, factor)

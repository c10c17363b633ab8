"""The learning-rate schedules, by name; one that falls towards the end of a run is supplied with ``progress``."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnx.registry import NonNegativeInt, PositiveInt, Probability, register

# The share of the training that is done after some optimizer steps, 0 to 1. How many steps there will be may change.
Progress = Callable[[int], float]


def warm_up(step: int, warmup_steps: int) -> float:
    """The factor of a linear warm-up after some optimizer steps: it is 1 from the step ``warmup_steps`` on.

    >>> [warm_up(step, 4) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return min(1.0, (step + 1) / max(warmup_steps, 1))


@register("lr_schedule", "constant")
def constant(optimizer: Optimizer, warmup_steps: NonNegativeInt = 0) -> LambdaLR:
    """The same learning rate throughout, after a linear warm-up if asked for.

    Formula: ``lr(t) = lr min(1, t / warmup_steps)``
    Source: the plain choice; warm-up as in Goyal et al. 2017, https://arxiv.org/abs/1706.02677
    """
    return LambdaLR(optimizer, lambda step: warm_up(step, warmup_steps))


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


@register("lr_schedule", "wsd")
def wsd(
    optimizer: Optimizer,
    progress: Progress,
    warmup_steps: NonNegativeInt = 100,
    stable_share: Probability = 0.8,
    min_lr_ratio: Probability = 0.0,
) -> LambdaLR:
    """Warm up, stay, decay: stay for ``stable_share`` of the training, then fall to ``min_lr_ratio``.

    Formula: ``lr(t) = lr min(1, t / warmup_steps) (min_lr_ratio + (1 - min_lr_ratio) (1 - sqrt(d))), d = max(0, (p -
        stable_share) / (1 - stable_share)), p = (t - 1) / T``, T the last step
    Source: Hägele et al. 2024, section 3, https://arxiv.org/abs/2405.18392
    """

    def factor(step: int) -> float:
        decayed = max(0.0, (progress(step) - stable_share) / (1 - stable_share))
        return warm_up(step, warmup_steps) * (min_lr_ratio + (1 - min_lr_ratio) * (1 - math.sqrt(decayed)))

    return LambdaLR(optimizer, factor)


@register("lr_schedule", "inverse_sqrt")
def inverse_sqrt(optimizer: Optimizer, warmup_steps: NonNegativeInt = 400) -> LambdaLR:
    """Rise over the warm-up, then fall with the square root of the step; needs no known end.

    Formula: ``lr(t) = lr min(t / warmup_steps, sqrt(warmup_steps / t))``
    Source: Vaswani et al. 2017, section 5.3, https://arxiv.org/abs/1706.03762
    """
    peak = max(warmup_steps, 1)
    return LambdaLR(optimizer, lambda step: min((step + 1) / peak, math.sqrt(peak / (step + 1))))


@register("lr_schedule", "halving")
def halving(optimizer: Optimizer, step_size: PositiveInt = 10_000) -> LambdaLR:
    """Halve the rate after every ``step_size`` steps; needs no known end.

    Formula: ``lr(t) = lr 2^-floor((t - 1) / step_size)``
    Source: Henaff et al. 2017, section 5, https://arxiv.org/abs/1612.03969
    """
    return LambdaLR(optimizer, lambda step: 0.5 ** (step // step_size))

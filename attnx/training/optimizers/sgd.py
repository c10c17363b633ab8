"""The optimizer ``sgd``."""

from __future__ import annotations

from torch import optim

from attnx.registry import PositiveFloat, Probability, register


@register("optimizer", "sgd")
def sgd(
    parameters: optim.optimizer.ParamsT,
    lr: PositiveFloat = 0.5,
    momentum: Probability = 0.0,
    weight_decay: Probability = 0.0,
) -> optim.Optimizer:
    """Plain stochastic gradient descent, with momentum if asked for.

    Formula: ``w <- w - lr g``
    Source: Robbins and Monro 1951, https://doi.org/10.1214/aoms/1177729586
    """
    return optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)

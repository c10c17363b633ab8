"""The optimizer ``adadelta``."""

from __future__ import annotations

from torch import optim

from attnx.registry import PositiveFloat, Probability, register


@register("optimizer", "adadelta")
def adadelta(
    parameters: optim.optimizer.ParamsT, lr: PositiveFloat = 1.0, rho: Probability = 0.95, eps: PositiveFloat = 1e-6
) -> optim.Optimizer:
    """Steps in the units of the weights; what Bahdanau et al. 2015 trained with.

    Formula: ``w <- w - lr RMS(step) / RMS(g) g``
    Source: Zeiler 2012, https://arxiv.org/abs/1212.5701
    """
    return optim.Adadelta(parameters, lr=lr, rho=rho, eps=eps)

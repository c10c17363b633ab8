"""The optimizers, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
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


@register("optimizer", "adadelta")
def adadelta(
    parameters: optim.optimizer.ParamsT, lr: PositiveFloat = 1.0, rho: Probability = 0.95, eps: PositiveFloat = 1e-6
) -> optim.Optimizer:
    """Steps in the units of the weights; what Bahdanau et al. 2015 trained with.

    Formula: ``w <- w - lr RMS(step) / RMS(g) g``
    Source: Zeiler 2012, https://arxiv.org/abs/1212.5701
    """
    return optim.Adadelta(parameters, lr=lr, rho=rho, eps=eps)


@register("optimizer", "adam")
def adam(
    parameters: Iterable[torch.Tensor],
    lr: PositiveFloat = 0.004,
    beta1: Probability = 0.9,
    beta2: Probability = 0.98,
    eps: PositiveFloat = 1e-8,
) -> optim.Optimizer:
    """Steps scaled by running means of the gradient and of its square.

    Formula: ``w <- w - lr m / (sqrt(v) + eps), m and v running means of g and g^2``
    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980
    """
    weights = list(parameters)
    return optim.Adam(weights, lr=lr, betas=(beta1, beta2), eps=eps, fused=choose_fused(weights))


@register("optimizer", "adamw")
def adamw(
    parameters: Iterable[torch.Tensor],
    lr: PositiveFloat = 0.004,
    beta1: Probability = 0.9,
    beta2: Probability = 0.98,
    eps: PositiveFloat = 1e-8,
    weight_decay: Probability = 0.01,
) -> optim.Optimizer:
    """Adam with weight decay that is not scaled by the gradient's history.

    Formula: ``as adam, and w <- w - lr weight_decay w``
    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101
    """
    weights = list(parameters)
    return optim.AdamW(
        weights, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, fused=choose_fused(weights)
    )


def choose_fused(parameters: Iterable[torch.Tensor]) -> Literal[True] | None:
    """``fused`` of torch's optimizers: True on a CPU, where torch would update each weight with ten operations.

    None elsewhere: a GPU then updates all weights together. Lightning does not clip the gradients of a fused optimizer
    with ``trainer.precision=16-mixed``.
    """
    return True if all(parameter.device.type == "cpu" for parameter in parameters) else None

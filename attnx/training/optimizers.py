"""The optimizers, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import optim

from attnx.registry import PositiveFloat, Probability, register


@register("optimizer", "sgd")
def sgd(
    parameters: Iterable[torch.Tensor],
    lr: PositiveFloat = 0.5,
    momentum: Probability = 0.0,
    weight_decay: Probability = 0.0,
) -> optim.Optimizer:
    """Plain stochastic gradient descent, with momentum if asked for.

    Formula: ``w <- w - lr (g + weight_decay w)``, where vectors of weights, such as biases, do not decay
    Source: Robbins and Monro 1951, https://doi.org/10.1214/aoms/1177729586
    """
    return optim.SGD(decay_matrices(parameters, weight_decay), lr=lr, momentum=momentum)


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

    Formula: ``as adam, and w <- w - lr weight_decay w``, where vectors of weights, such as biases, do not decay
    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101
    """
    weights = list(parameters)
    groups = decay_matrices(weights, weight_decay)
    return optim.AdamW(groups, lr=lr, betas=(beta1, beta2), eps=eps, fused=choose_fused(weights))


def decay_matrices(parameters: Iterable[torch.Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Groups of weights for an optimizer: matrices, which decay, and vectors, which do not.

    Vectors are biases and the gains of norms: they scale or shift what a matrix has computed, so that to shrink them
    does not make a model simpler.
    """
    weights = list(parameters)
    vectors = [weight for weight in weights if weight.dim() < 2]
    matrices = [weight for weight in weights if weight.dim() >= 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def choose_fused(parameters: Iterable[torch.Tensor]) -> Literal[True] | None:
    """``fused`` of torch's optimizers: True on a CPU, where torch would update each weight with ten operations.

    None elsewhere: a GPU then updates all weights together. Lightning does not clip the gradients of a fused optimizer
    with ``trainer.precision=16-mixed``.
    """
    return True if all(parameter.device.type == "cpu" for parameter in parameters) else None

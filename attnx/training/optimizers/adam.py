"""The optimizer ``adam``."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import optim

from attnx.registry import PositiveFloat, Probability, register
from attnx.training.optimizers.fused_kernel import choose_fused


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

"""The optimizer ``adam``."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from attnx.registry import Probability, Rate, register


@register("optimizer", "adam")
def adam(
    parameters: Iterable[nn.Parameter],
    lr: Rate = 0.004,
    beta1: Probability = 0.9,
    beta2: Probability = 0.98,
    eps: Rate = 1e-8,
) -> torch.optim.Optimizer:
    """Steps scaled by running means of the gradient and of its square.

    Formula: ``w <- w - lr m / (sqrt(v) + eps), m and v running means of g and g^2``
    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980
    """
    return torch.optim.Adam(parameters, lr=lr, betas=(beta1, beta2), eps=eps)

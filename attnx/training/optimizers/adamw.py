"""The optimizer ``adamw``."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import optim

from attnx.registry import PositiveFloat, Probability, register
from attnx.training.optimizers.fused_kernel import choose_fused


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

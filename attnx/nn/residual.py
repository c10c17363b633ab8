"""A way around a part of a layer, normalized before the part or after the sum."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Norm = Literal["pre", "post"]


class Residual(nn.Module):
    """Add what a part makes of a state to the state.

    Formula: ``post: norm(x + f(x)); pre: x + f(norm(x))``
    Source: post, Vaswani et al. 2017, section 3.1, https://arxiv.org/abs/1706.03762; pre, Xiong et al. 2020,
        https://arxiv.org/abs/2002.04745

    Args:
        width: of the states.
        norm: where they are normalized.
        dropout: share of the part's units dropped while training.
    """

    def __init__(self, width: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm, self.pre, self.dropout = nn.LayerNorm(width), norm == "pre", dropout

    def before(self, states: Tensor) -> Tensor:
        """What the part gets of the states (b, t, width)."""
        return self.norm(states) if self.pre else states

    def after(self, states: Tensor, made: Tensor) -> Tensor:
        """The states and what the part made of them, summed."""
        summed = states + F.dropout(made, self.dropout, self.training)
        return summed if self.pre else self.norm(summed)

"""The sublayers of a transformer: the feed-forward map, and the residual connection around each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}
Norm = Literal["pre", "post"]
NormType = Literal["layer", "rms"]
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-5)}
"""Normalization of vectors of a width: by mean and variance (Ba et al. 2016, https://arxiv.org/abs/1607.06450), or by
the root of the mean square and without a bias (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)."""


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, which may be multiplied by a third map.

    Formula: ``f(x) = W_2 activation(W_1 x + b_1) + b_2``, or gated ``f(x) = W_2 (activation(V x + c) * (W_1 x + b_1)) +
        b_2``
    Source: Vaswani et al. 2017, equation 2, https://arxiv.org/abs/1706.03762; gated, Shazeer 2020, equation 6,
        https://arxiv.org/abs/2002.05202, with ``silu`` its SwiGLU
    """

    def __init__(
        self,
        hidden_size: int,
        feedforward_size: int,
        activation: Activation,
        is_gated: bool = False,
        has_bias: bool = True,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, feedforward_size, has_bias)
        self.gate = nn.Linear(hidden_size, feedforward_size, has_bias) if is_gated else None
        self.down = nn.Linear(feedforward_size, hidden_size, has_bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, states: Tensor) -> Tensor:
        """(b, t, hidden_size) -> (b, t, hidden_size)."""
        units = self.up(states)
        units = self.activation(units) if self.gate is None else self.activation(self.gate(states)) * units
        outputs: Tensor = self.down(units)
        return outputs


class Residual(nn.Module):
    """A residual connection around a sublayer f.

    Formula: ``post: norm(x + f(x)); pre: x + f(norm(x))``
    Source: post, Vaswani et al. 2017, section 3.1, https://arxiv.org/abs/1706.03762; pre, Xiong et al. 2020,
        https://arxiv.org/abs/2002.04745
    """

    def __init__(self, hidden_size: int, norm: Norm, dropout: float, norm_type: NormType = "layer") -> None:
        super().__init__()
        self.norm, self.is_pre_norm, self.dropout = NORMS[norm_type](hidden_size), norm == "pre", dropout

    def pre(self, states: Tensor) -> Tensor:
        """The sublayer's input: the states (b, t, hidden_size), normalized if pre-norm."""
        return self.norm(states) if self.is_pre_norm else states

    def post(self, states: Tensor, outputs: Tensor) -> Tensor:
        """The states plus the sublayer's outputs, normalized if post-norm."""
        total = states + F.dropout(outputs, self.dropout, self.training)
        return total if self.is_pre_norm else self.norm(total)

"""Residual connections with normalization before the sublayer (pre-norm) or after the sum (post-norm)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Norm = Literal["pre", "post"]
NormType = Literal["layer", "rms"]
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-5)}
"""Normalization of vectors of a width: by mean and variance (Ba et al. 2016, https://arxiv.org/abs/1607.06450), or by
the root of the mean square and without a bias (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)."""


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

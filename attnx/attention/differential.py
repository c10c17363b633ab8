"""Differential attention: of each head two attentions, the second of which is subtracted from the first."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from attnx.attention.factory import PartChoice, build_heads
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.options import AttentionOptions
from attnx.attention.types import AttentionOutput
from attnx.errors import UserError
from attnx.registry import Depth, PartSpec, PositiveFloat, PositiveInt, Probability, Size, register


@register("attention", "differential", read_if={"chunk_mib": "accel=auto"}, maps_per_head=2, is_distribution=False)
def build_differential(
    scorer: PartChoice,
    scope: PartChoice,
    normalizer: PartChoice,
    query_size: Size,
    memory_size: Size,
    values_size: Size,
    layer: Size,
    heads: Depth = 2,
    dropout: Probability = 0.0,
    bias: PartSpec | None = None,
    chunk_mib: PositiveInt = 64,
    softcap: PositiveFloat | None = None,
    qk_norm: Literal["none", "l2", "rms"] = "none",
) -> MultiHeadAttention:
    """Each head reads by the difference of two attentions, so that what both read alike, noise, cancels.

    Formula: ``c = (1 - r) RMSNorm((A_1 - l A_2) V), A_i = normalize(score(Q_i q, K_i m)), l = exp(a_1 . b_1) -
        exp(a_2 . b_2) + r, r = 0.8 - 0.6 exp(-0.3 layer)``
    Source: Ye et al. 2024, section 2.1, https://arxiv.org/abs/2410.05258

    A head has two queries and two keys of half its width, and one value. The four vectors of the share l are learned,
    one set a layer; layers count from 0. Weights are the differences: they may be negative, and sum to 1 - l. The other
    options are those of ``standard``.

    >>> import torch
    >>> from attnx import registry
    >>> sizes = {"query_size": 13, "memory_size": 8, "values_size": 12, "layer": 0}
    >>> parts = {"scorer": "scaled", "scope": "global", "normalizer": "softmax"}
    >>> attention = registry.build("attention", "differential", **parts, **sizes)
    >>> memory = attention.make_memory(torch.ones(2, 5, 8), values=torch.ones(2, 5, 12))
    >>> attention(torch.ones(2, 3, 13), memory).context.shape
    torch.Size([2, 3, 12])
    """
    options = AttentionOptions(dropout=dropout, bias=bias, chunk_mib=chunk_mib, softcap=softcap, qk_norm=qk_norm)
    if memory_size % (2 * heads) or values_size % heads:
        raise UserError(
            f"attention=differential has two maps in each of attention.heads={heads}, into which the widths of the "
            f"memory and of the values, {memory_size} and {values_size}, do not divide; choose another number of heads"
        )
    difference = HeadDifference(memory_size // (2 * heads), values_size // heads, layer)
    pairs = build_heads((scorer, scope, normalizer), memory_size // (2 * heads), 2 * heads, options)
    attention = MultiHeadAttention(pairs, query_size, memory_size, values_size, options, difference)
    if attention.needs_history or attention.heads[0].is_sampled:
        raise UserError("attention=differential: a part reads earlier steps or samples positions; use others")
    return attention


class HeadDifference(nn.Module):
    """What the first attention of each pair reads, less a learned share of what the second reads, normalized.

    Args:
        key_size: width of the keys of one attention of a pair.
        values_size: width of a head's values.
        layer: which layer of the model it is in, from 0: the deeper, the more is subtracted at first.
    """

    def __init__(self, key_size: int, values_size: int, layer: int) -> None:
        super().__init__()
        self.start = 0.8 - 0.6 * math.exp(-0.3 * layer)
        self.share = nn.Parameter(0.1 * torch.randn(2, 2, key_size))  # of first and second: two vectors
        self.norm = nn.RMSNorm(values_size, eps=1e-5)

    def subtracted_share(self) -> Tensor:
        """How much of the second attention is subtracted, a number."""
        first, second = self.share.prod(1).sum(-1).exp().unbind()
        return first - second + self.start

    def forward(self, output: AttentionOutput) -> AttentionOutput:
        """Contexts and weights of pairs of maps (b, 2 h, q, ...) -> of heads (b, h, q, ...)."""
        share = self.subtracted_share()

        def subtract(pairs: Tensor) -> Tensor:
            return pairs[:, ::2] - share.to(pairs.dtype) * pairs[:, 1::2]

        context = (1 - self.start) * self.norm(subtract(output.context))
        if output.weights is None or output.scores is None:
            return output._replace(context=context)
        # Scores of the first map alone: normalized apart, they have no difference.
        return output._replace(context=context, weights=subtract(output.weights), scores=output.scores[:, ::2])

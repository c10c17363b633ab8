"""The kernel ``tiled``."""

from __future__ import annotations

import functools

import torch

from attnx.accel.attention.chunking import checkpointed, in_chunks
from attnx.attention.attention import Attention
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.registry import register


@register("kernel", "tiled")
class Tiled:
    """The definition, tile by tile: of the hidden layers only one tile's are in memory, forwards and backwards.

    Formula: ``context(q) = sum_m normalize(score(q, m))(m) value(m), for some rows and queries at a time``
    Source: Chen et al. 2016 (compute again what is not kept), https://arxiv.org/abs/1604.06174

    A tile is as many rows of the batch, or of one row as many queries, as fit into ``attention.chunk_mib`` MiB; all of
    it but the context is computed once more for the gradients. Scores and weights exist for one tile, too, unless they
    are requested. Where a single query does not fit, its memory is compared in parts.

    >>> from attnx import accel
    >>> from attnx.attention import build
    >>> attention = accel.enable(build(scorer="mlp", query_size=13, memory_size=26, chunk_mib=1))
    >>> attention(torch.ones(2, 97, 13), attention.make_memory(torch.ones(2, 101, 26))).context.shape
    torch.Size([2, 97, 26])
    """

    scorers = ("additive", "mlp", "concat")
    scopes = ()
    normalizers = ()
    priority = 30

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """More pairs than a tile holds: a read that fits into one is the definition's."""
        return inputs.prepared_queries.shape[:2].numel() * inputs.memory.keys.shape[-2] > pairs_per_chunk(
            attention, inputs
        )

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Read tile by tile, and join what was read."""
        pairs, positions = pairs_per_chunk(attention, inputs), inputs.memory.keys.shape[-2]
        return in_chunks(functools.partial(_read, attention, pairs), inputs, pairs // positions)


def pairs_per_chunk(attention: Attention, inputs: AttentionInputs) -> int:
    """How many pairs of a query and a position a tile holds, at least 1."""
    # At most, each layer's sums, outputs and one gradient are there at once; and so many things as wide as the scores.
    scorer = attention.scorer
    hidden = len(scorer.v) if isinstance(scorer, Additive) else getattr(scorer, "hidden_size", 0)
    numbers = 3 * hidden + 8
    return max(attention.chunk_mib * 2**20 // (numbers * inputs.prepared_queries.element_size()), 1)


def _read(attention: Attention, pairs: int, tile: AttentionInputs) -> AttentionOutput:
    """The definition of one tile; of one query that does not fit, with its memory compared in parts."""
    parts = torch.split(tile.memory.keys, pairs, dim=-2)
    if len(parts) == 1:
        return attention.attend_with_scores(tile, attention.score(tile))
    scores = torch.cat([checkpointed(attention.scorer.score, tile.prepared_queries, part) for part in parts], dim=-1)
    return attention.attend_with_scores(tile, scores)

"""The kernel ``tiled``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attnx.attention.attention import Attention
from attnx.attention.protocols import Asked, Memory, Read
from attnx.registry import register


@register("kernel", "tiled")
class Tiled:
    """The definition, tile by tile: of the hidden layers only one tile's are in memory, forwards and backwards.

    Formula: ``context(q) = sum_m normalise(score(q, m))(m) value(m), for some rows and queries at a time``
    Source: Chen et al. 2016 (compute again what is not kept), https://arxiv.org/abs/1604.06174

    A tile is as many rows of the batch, or of one row as many queries, as fit into ``attention.tile`` MiB; all of it
    but the context is computed once more for the gradients. Scores and weights exist for one tile, too, unless they
    are asked for. Where a single query does not fit, its memory is compared in parts.

    >>> from attnx.attention import build
    >>> attention = build(scorer="mlp", query_size=13, memory_size=26, tile=1)
    >>> attention(torch.ones(2, 97, 13), attention.remember(torch.ones(2, 101, 26))).context.shape
    torch.Size([2, 97, 26])
    """

    scorers = ("mlp", "concat")
    scopes = ()
    normalisers = ()
    rank = 30

    def admits(self, attention: Attention, asked: Asked) -> bool:
        """More pairs than a tile holds: a read that fits into one is the definition's."""
        return asked.asked.shape[:2].numel() * asked.memory.keys.shape[-2] > at_once(attention, asked)

    def __call__(self, attention: Attention, asked: Asked) -> Read:
        """Read tile by tile, and join what was read."""
        pairs, positions = at_once(attention, asked), asked.memory.keys.shape[-2]
        return by_tiles(functools.partial(_read, attention, pairs), asked, pairs // positions)


def at_once(attention: Attention, asked: Asked) -> int:
    """How many pairs of a query and a position a tile holds, at least 1."""
    # At most, each layer's sums, outputs and one gradient are there at once; and so many things as wide as the scores.
    numbers = 3 * getattr(attention.scorer, "hidden", 0) + 8
    return max(attention.tile * 2**20 // (numbers * asked.asked.element_size()), 1)


def by_tiles(read: Callable[[Asked], Read], asked: Asked, fitting: int) -> Read:
    """Read so many queries at a time, of one row or of several whole ones, and join what was read."""
    memory = asked.memory
    rows, queries, positions = (*asked.asked.shape[:2], memory.keys.shape[-2])
    shared, own = (memory.present, None) if memory.present.dim() == 2 else (None, memory.present)
    allowed = None if asked.allowed is None else asked.allowed.expand(rows, queries, positions)
    by_row = memory.keys, memory.values, shared
    by_query = asked.queries, asked.asked, asked.at.expand(rows, queries), own, allowed, asked.keep
    reads = []
    for keys, values, present, *theirs in _split((*by_row, *by_query), fitting // queries, 0):
        tiles = [
            asked._replace(
                queries=asking,
                asked=prepared,
                memory=Memory(keys, values, present if there is None else there, memory.lengths),
                at=at,
                allowed=allowed,
                keep=keep,
            )
            for asking, prepared, at, there, allowed, keep in _split(theirs, fitting, 1)
        ]
        reads.append(_joined([_again(read, tile) for tile in tiles], 1))
    return _joined(reads, 0)


def _read(attention: Attention, pairs: int, tile: Asked) -> Read:
    """The definition of one tile; of one query that does not fit, with its memory compared in parts."""
    parts = torch.split(tile.memory.keys, pairs, dim=-2)
    if len(parts) == 1:
        return attention.weigh(tile, attention.score(tile))
    scores = torch.cat([_again(attention.scorer.compare, tile.asked, part) for part in parts], dim=-1)
    return attention.weigh(tile, scores)


def _again(function: Callable[..., Any], *given: Any) -> Any:
    """Call it and keep nothing but what it was given: for the gradients it is called again."""
    if not torch.is_grad_enabled():
        return function(*given)
    return checkpoint(function, *given, use_reentrant=False, preserve_rng_state=False)


def _split(parts: Sequence[Tensor | None], size: int, axis: int) -> Iterator[tuple[Any, ...]]:
    """Several tensors in step, at least one at a time; what is None stays None."""
    # Split all at once: gradients of slices, each taken apart, would be as large as the whole.
    sizes = max(size, 1)
    return zip(
        *(itertools.repeat(None) if part is None else torch.split(part, sizes, axis) for part in parts), strict=False
    )


def _joined(reads: list[Read], axis: int) -> Read:
    """What is None in one read is so in all."""
    parts: list[Any] = [None if one[0] is None else torch.cat(one, axis) for one in zip(*reads, strict=True)]
    return Read(*parts)

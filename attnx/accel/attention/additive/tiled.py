"""The kernel ``additive_tiled``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from attnx.accel.attention.additive import blocks
from attnx.attention.attention import Attention
from attnx.attention.protocols import AttentionInputs, AttentionOutput
from attnx.registry import register

TILE = 2**18
"""Numbers in a tile: few enough to stay in a processor's cache from one operation to the next."""
POSITIONS = 128
"""Positions in a tile, if a memory has more."""
Tile = tuple[slice, slice, slice]


@register("kernel", "additive_tiled")
class TiledAdditive:
    """Additive attention in torch's own operations, on any device: hidden units exist for one tile at a time.

    Formula: ``score(q, m) = v . tanh(W q + U m)``, for some rows, queries and positions at a time
    Source: Chen et al. 2016 (compute again what is not kept), https://arxiv.org/abs/1604.06174

    It serves where the compiled kernels do not: without a compiler, in double precision, on other devices. Of a tile
    nothing is kept but its scores; gradients, too, are computed tile by tile. That tiles stay in the cache makes it
    some times as fast as the definition; exponentials that are taken beforehand would gain little here.

    >>> from attnx.attention import build
    >>> attention = build(query_size=13, memory_size=26).double()
    >>> queries, states = torch.ones(2, 97, 13).double(), torch.ones(2, 101, 26).double()
    >>> attention(queries, attention.remember(states)).context.shape
    torch.Size([2, 97, 26])
    """

    scorers = ("additive",)
    scopes = ()
    normalizers = ()
    rank = 40

    def admits(self, attention: Attention, asked: AttentionInputs) -> bool:
        """More than one tile: what fits into one is the definition's."""
        rows, queries, width = asked.asked.shape
        return rows * queries * width * asked.memory.keys.shape[-2] > TILE and blocks.served(attention, asked)

    def __call__(self, attention: Attention, asked: AttentionInputs) -> AttentionOutput:
        """Read, a block of queries at a time where there are many."""
        return blocks.read(attention, asked, WAYS)


def scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) -> (b, q, m)."""
    found = queries.new_empty(*queries.shape[:2], keys.shape[1])
    with torch.autocast(queries.device.type, enabled=False):
        for tile in _tiles(queries, keys):
            found[tile] = _hidden(queries, keys, tile) @ v
    return found


def gradients(queries: Tensor, keys: Tensor, v: Tensor, of_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the scores' gradients those of queries, keys and v."""
    of_queries, of_keys, of_v = torch.zeros_like(queries), torch.zeros_like(keys), torch.zeros_like(v)
    one = v.new_ones(())
    with torch.autocast(queries.device.type, enabled=False):
        for tile in _tiles(queries, keys):
            rows, steps, positions = tile
            hidden, of_tile = _hidden(queries, keys, tile), of_scores[tile]
            of_v += of_tile.flatten() @ hidden.flatten(0, 2)
            # Yet without the factor v, which all terms of a sum share.
            of_sums = torch.addcmul(one, hidden, hidden, value=-1).mul_(of_tile[..., None])
            of_queries[rows, steps] += of_sums.sum(2)
            of_keys[rows, positions] += of_sums.sum(1)
    return of_queries.mul_(v), of_keys.mul_(v), of_v


def _hidden(queries: Tensor, keys: Tensor, tile: Tile) -> Tensor:
    """The hidden units of a tile, (b, q, m, d)."""
    rows, steps, positions = tile
    return (queries[rows, steps, None] + keys[rows, None, positions]).tanh_()


def _tiles(queries: Tensor, keys: Tensor) -> Iterator[Tile]:
    """Slices of rows, queries and positions, which together are every pair once."""
    (rows, steps, width), positions = queries.shape, keys.shape[1]
    wide = min(positions, POSITIONS, max(1, TILE // width))
    high = min(steps, max(1, TILE // (width * wide)))
    deep = max(1, TILE // (width * wide * high))
    each = zip((rows, steps, positions), (deep, high, wide), strict=True)
    yield from product(*([slice(at, at + size) for at in range(0, end, size)] for end, size in each))


WAYS = blocks.AdditiveBackend(scores, gradients)

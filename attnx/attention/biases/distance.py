"""The bias ``distance``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.contracts import DistanceTerm
from attnx.errors import UserError
from attnx.registry import PositiveInt, register

MIN_BUCKETS = 4
"""Buckets with which each direction has one of an exact distance and one of all longer distances."""


@register("bias", "distance")
class Distance(nn.Module):
    """A learned number for each bucket of distances; buckets widen with the distance.

    Formula: ``bias(distance) = w[bucket(distance)]``
    Source: Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683

    Half of the ``buckets`` are for positions at or before the query's step, half for later ones. The first buckets of
    each half, one in two, hold one distance each; the others widen logarithmically up to ``max_distance``, and the last
    holds all longer distances. Numbers start at 0. Heads and layers share none; the paper shares them among layers,
    and gives all buckets to the past where attention is causal: doubling ``buckets`` has the same effect.

    >>> bias = Distance(buckets=8, max_distance=16)
    >>> bias.buckets[torch.tensor([0, 1, 2, 5, 6, 16, -1, -5, -6]) + 16].tolist()
    [0, 1, 2, 2, 3, 3, 5, 6, 7]
    """

    needs_query = False
    buckets: Tensor

    def __init__(self, buckets: PositiveInt = 32, max_distance: PositiveInt = 128) -> None:
        super().__init__()
        exact = buckets // 4
        if buckets < MIN_BUCKETS or buckets % 2:
            raise UserError(f"bias.buckets={buckets}: half are for each direction; choose 4 or a larger even number")
        if max_distance <= exact:
            reason = f"{buckets} buckets have {exact} distances of their own in each direction"
            raise UserError(f"bias.max_distance={max_distance}: {reason}; choose {exact + 1} or more")
        half = bucket_table(buckets // 2, max_distance)
        later = [buckets // 2 + bucket for bucket in half[:0:-1]]
        self.weight = nn.Parameter(torch.zeros(buckets))
        self.max_distance = max_distance
        self.register_buffer("buckets", torch.tensor([*later, *half]), persistent=False)

    def forward(self, queries: Tensor, distances: Tensor) -> Tensor:
        """(b, q, query_size), (b or 1, q, m) -> (b or 1, q, m)."""
        longest = self.max_distance
        return self.weight[self.buckets[distances.clamp(-longest, longest) + longest]]

    def score_mod(self, queries: Tensor) -> DistanceTerm:
        """The same pair by pair, for FlexAttention."""
        weight, buckets, longest = self.weight, self.buckets, self.max_distance
        return lambda _b, _q, distance: weight[buckets[distance.clamp(-longest, longest) + longest]]


def bucket_table(buckets: int, max_distance: int) -> list[int]:
    """The bucket of each distance from 0 to ``max_distance``: the first half one distance each, the others wider.

    >>> bucket_table(4, 16)
    [0, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    """
    exact = buckets // 2
    wide = buckets - exact

    def bucket(distance: int) -> int:
        # (distance / exact) >= (max_distance / exact) ^ (index / wide), in whole numbers, which are not rounded.
        reached = (distance**wide * exact**index >= exact**wide * max_distance**index for index in range(1, wide))
        return distance if distance < exact else exact + sum(reached)

    return [bucket(distance) for distance in range(max_distance + 1)]

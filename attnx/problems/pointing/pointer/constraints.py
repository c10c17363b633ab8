"""Constraints on the positions that a pointer network outputs, and the history they depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from attnx.data.vocabulary import UNK
from attnx.nn.targets.symbols import Symbols

PointerConstraint = Literal["any", "distinct", "permutation", "ring"]

FIRST_POSITION_ID = UNK + 1
"""The id of the first position; the ids before it are those of special tokens."""


@dataclass(frozen=True)
class PositionTarget(Symbols):
    """Positions of the source as ids: EOS ends the output, position s has the id 4 + s.

    Args:
        width: number of ids: 4 more than the longest source has positions.
        constraint: which outputs have a probability; see :func:`allowed_next`.
    """

    constraint: PointerConstraint = "any"


class PointerHistory(NamedTuple):
    """The positions that were output so far; every tensor has the batch as its first axis."""

    counts: Tensor  # (b, s) int64, or (b, t, s) before each step: how often each position was output
    first: Tensor  # (b, s) bool, or (b, t, s): True at the position that was output first


def allowed_next(constraint: PointerConstraint, counts: Tensor, first: Tensor, source_mask: Tensor) -> Tensor:
    """The mask of outputs that a constraint allows next; the end, if it allows nothing else.

    ``any`` allows every position, ``distinct`` those not output yet, with the end at any time. ``permutation`` needs
    all positions, each once, before the end; ``ring`` at least three distinct ones, then the first again.

    Args:
        constraint: its name.
        counts: (..., s) how often each position was output.
        first: (..., s) bool, True at the position that was output first.
        source_mask: (..., s) bool, False at padding.

    Returns:
        (..., s + 1) bool, the end last.

    >>> counts, mask = torch.tensor([[1, 0, 1, 1, 0]]), torch.tensor([[True, True, True, True, False]])
    >>> allowed_next("ring", counts, torch.tensor([[False, False, True, False, False]]), mask).int()
    tensor([[0, 1, 1, 0, 0, 0]], dtype=torch.int32)
    """
    unused = source_mask & (counts == 0)
    positions, end = unused, unused.new_ones(*unused.shape[:-1], 1)
    if constraint == "any":
        positions = source_mask.expand_as(unused)
    elif constraint == "permutation":
        end = ~unused.any(-1, keepdim=True)
    elif constraint == "ring":
        end = (counts > 1).any(-1, keepdim=True)
        can_close = ((counts > 0).sum(-1, keepdim=True) >= 3) | ~unused.any(-1, keepdim=True)
        positions = (unused | (first & can_close)) & ~end
    return torch.cat([positions, end | ~positions.any(-1, keepdim=True)], dim=-1)


def one_hot_positions(ids: Tensor, positions: int) -> Tensor:
    """(...) ids -> (..., s) int64, 1 at the id's position; zeros for special tokens."""
    return (ids[..., None] == FIRST_POSITION_ID + torch.arange(positions, device=ids.device)).long()


def update_pointer_history(history: PointerHistory, ids: Tensor) -> PointerHistory:
    """The history with the output ids (b,) added."""
    output = one_hot_positions(ids, history.counts.shape[-1])
    is_empty = ~history.first.any(-1, keepdim=True)
    return PointerHistory(history.counts + output, history.first | (is_empty & (output > 0)))


def history_per_step(ids: Tensor, positions: int) -> PointerHistory:
    """The history before each step, from the decoder's inputs, ids (b, t)."""
    counts = one_hot_positions(ids, positions).cumsum(1)
    # The first position is the only one with a count when the counts sum to 1.
    is_only_one = (counts.sum(-1, keepdim=True) == 1) & (counts > 0)
    return PointerHistory(counts, is_only_one.cummax(1).values)

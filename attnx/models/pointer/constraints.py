"""What was pointed to so far, and which positions may be pointed to next."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from attnx.data.special_tokens import UNK

PointerConstraint = Literal["any", "distinct", "permutation", "ring"]

FIRST = UNK + 1
"""The id of the first position: those of the specials come before."""


class PointerHistory(NamedTuple):
    """What was pointed to so far; every tensor has the batch as its first axis.

    Attributes:
        counts: (b, s) int64, or (b, t, s) before each step, how often each position was.
        first: (b, s) bool, or (b, t, s), which one was the first.
    """

    counts: Tensor
    first: Tensor


def may_follow(only: PointerConstraint, counts: Tensor, first: Tensor, present: Tensor) -> Tensor:
    """Say what may come next; where nothing else may, the end.

    ``any`` position; ``distinct`` ones; all of them, each once, a ``permutation``; or three and more of them and then
    the first again, a ``ring``. The end may come at any time, but for the last two, where it comes when they are whole.

    Args:
        only: the rule.
        counts: (..., s) how often each position was pointed to.
        first: (..., s) bool, True where the first one was; nowhere before there is one.
        present: (..., s) bool.

    Returns:
        (..., s + 1) bool, the end last.

    >>> counts, there = torch.tensor([[1, 0, 1, 1, 0]]), torch.tensor([[True, True, True, True, False]])
    >>> may_follow("ring", counts, torch.tensor([[False, False, True, False, False]]), there).int()
    tensor([[0, 1, 1, 0, 0, 0]], dtype=torch.int32)
    """
    new = present & (counts == 0)
    some, end = new, new.new_ones(*new.shape[:-1], 1)
    if only == "any":
        some = present.expand_as(new)
    elif only == "permutation":
        end = ~new.any(-1, keepdim=True)
    elif only == "ring":
        end = (counts > 1).any(-1, keepdim=True)
        enough = ((counts > 0).sum(-1, keepdim=True) >= 3) | ~new.any(-1, keepdim=True)
        some = (new | (first & enough)) & ~end
    return torch.cat([some, end | ~some.any(-1, keepdim=True)], dim=-1)


def named(ids: Tensor, positions: int) -> Tensor:
    """(...) ids -> (..., s) int64, 1 at the position that is named; ids that name none give zeros."""
    return (ids[..., None] == FIRST + torch.arange(positions, device=ids.device)).long()


def pointed_after(pointed: PointerHistory, ids: Tensor) -> PointerHistory:
    """What was pointed to after ids (b,), too."""
    now = named(ids, pointed.counts.shape[-1])
    none = ~pointed.first.any(-1, keepdim=True)
    return PointerHistory(pointed.counts + now, pointed.first | (none & (now > 0)))


def pointed_before_each(ids: Tensor, positions: int) -> PointerHistory:
    """What was pointed to before each of the steps that read ids (b, t)."""
    counts = named(ids, positions).cumsum(1)
    # The first is the one that alone is counted.
    alone = (counts.sum(-1, keepdim=True) == 1) & (counts > 0)
    return PointerHistory(counts, alone.cummax(1).values)

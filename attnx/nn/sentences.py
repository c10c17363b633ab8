"""Sentences of a source: where its words are in them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def word_index(is_end: Tensor) -> Tensor:
    """(b, s) bool, the last symbols of sentences -> (b, s) int64, the position of each symbol in its sentence.

    >>> word_index(torch.tensor([[False, True, False, False, True]]))
    tensor([[0, 1, 0, 1, 2]])
    """
    positions = torch.arange(is_end.shape[1], device=is_end.device)
    starts = torch.where(is_end, positions + 1, 0)
    return positions - F.pad(starts, (1, 0))[:, :-1].cummax(1).values

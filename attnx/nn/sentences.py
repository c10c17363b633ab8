"""Sentences of a source: where its words are in them, and weights over sentences as weights over words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.nn.contracts import Spans


def word_index(is_end: Tensor) -> Tensor:
    """(b, s) bool, the last symbols of sentences -> (b, s) int64, the position of each symbol in its sentence.

    >>> word_index(torch.tensor([[False, True, False, False, True]]))
    tensor([[0, 1, 0, 1, 2]])
    """
    positions = torch.arange(is_end.shape[1], device=is_end.device)
    starts = torch.where(is_end, positions + 1, 0)
    return positions - F.pad(starts, (1, 0))[:, :-1].cummax(1).values


def spread_weights(weights: Tensor, spans: Spans) -> Tensor:
    """Weights (b, ..., n) over states -> (b, ..., s) over the source's steps: each has its share of its state's.

    >>> index, shares = torch.tensor([[0, 0, 1]]), torch.tensor([[0.25, 0.75, 1.0]])
    >>> spread_weights(torch.tensor([[0.4, 0.6]]), Spans(index[:, :2] > -1, index, shares))
    tensor([[0.1000, 0.3000, 0.6000]])
    """
    shape = (len(weights), *[1] * (weights.dim() - 2), spans.state_index.shape[1])
    index = spans.state_index.view(shape).expand(*weights.shape[:-1], -1)
    return weights.gather(-1, index) * spans.shares.view(shape)

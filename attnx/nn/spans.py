"""Where the steps of a source are: in the spans that states of an encoder stand for, and in their sentences."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Spans(NamedTuple):
    """Which state stands for each step of a source, where an encoder has fewer states than steps."""

    mask: Tensor  # (b, n) bool, which states are there
    state_index: Tensor  # (b, s) int64, the state of each step
    shares: Tensor  # (b, s), the share of each step in its state; 0 at padding

    def upsample(self, weights: Tensor) -> Tensor:
        """Weights (b, ..., t, n + k) over states -> (b, ..., t, s + k): each step has its share of its state's weight.

        The weights of k further positions, such as a decoder's states, stay as they are.

        >>> index, shares = torch.tensor([[0, 0, 1]]), torch.tensor([[0.25, 0.75, 1.0]])
        >>> Spans(index[:, :2] > -1, index, shares).upsample(torch.tensor([[[0.3, 0.6, 0.1]]]))
        tensor([[[0.0750, 0.2250, 0.6000, 0.1000]]])
        """
        index, shares = self.state_index, self.shares
        while index.dim() < weights.dim():
            index, shares = index[:, None], shares[:, None]
        over_steps = weights.gather(-1, index.expand(*weights.shape[:-1], -1)) * shares
        return torch.cat([over_steps, weights[..., self.mask.shape[1] :]], dim=-1)


def word_index(is_end: Tensor) -> Tensor:
    """(b, s) bool, the last symbols of sentences -> (b, s) int64, the position of each symbol in its sentence.

    >>> word_index(torch.tensor([[False, True, False, False, True]]))
    tensor([[0, 1, 0, 1, 2]])
    """
    positions = torch.arange(is_end.shape[1], device=is_end.device)
    starts = torch.where(is_end, positions + 1, 0)
    return positions - F.pad(starts, (1, 0))[:, :-1].cummax(1).values

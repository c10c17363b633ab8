"""The mixer ``lstm``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnx.mixers.chunks import zero_padding
from attnx.nn.recurrent import MemoryCellLayer, count_steps
from attnx.ops import at_least_float32
from attnx.registry import Size, register


class MemoryCellsState(NamedTuple):
    """The state of the cells."""

    hidden: Tensor  # (b, hidden_size)
    cell: Tensor  # (b, hidden_size)


@register("mixer", "lstm")
class MemoryCells(nn.Module):
    """A layer of LSTM cells, whose state depends on the one before in a way that is not linear.

    Formula: ``c_t = f_t * c_{t-1} + i_t * tanh(W x_t + U h_{t-1} + b), h_t = o_t * tanh(c_t)``
    Source: Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735; forget gates, Gers et al. 2000

    It runs position by position in training, too. With ``accel=auto`` the C kernel of recurrent layers runs it.

    >>> mixer = MemoryCells(hidden_size=8)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.cell.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 8]))
    """

    def __init__(self, hidden_size: Size) -> None:
        super().__init__()
        self.cells = MemoryCellLayer(hidden_size, hidden_size, batch_first=True)
        self.hidden_size, self.state_size = hidden_size, 2 * hidden_size

    def init_state(self, rows: int, like: Tensor) -> MemoryCellsState:
        """Zeros."""
        zeros = like.new_zeros(rows, self.hidden_size, dtype=at_least_float32(like.dtype))
        return MemoryCellsState(zeros, zeros)

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: MemoryCellsState | None = None
    ) -> tuple[Tensor, MemoryCellsState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        if states.shape[1] == 0:
            return states, state
        states = zero_padding(states, mask)
        lengths = None if mask is None else count_steps(mask, None)
        outputs, after = self.cells.run([states], lengths, tuple(part.to(states.dtype) for part in state))
        after = tuple(new.to(old.dtype) for new, old in zip(after, state, strict=True))
        if mask is not None:  # the cells run over one position at least
            is_empty = ~mask.any(1)[:, None]
            after = tuple(torch.where(is_empty, old, new) for new, old in zip(after, state, strict=True))
        return outputs, MemoryCellsState._make(after)

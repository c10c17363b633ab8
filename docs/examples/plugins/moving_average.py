"""The mixer ``moving_average``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnx.registry import Size, register


class MovingAverageState(NamedTuple):
    """The average so far."""

    average: Tensor  # (b, hidden_size)


@register("mixer", "moving_average")
class MovingAverage(nn.Module):
    """The moving average of a map of the positions, each unit with a rate of its own.

    Formula: ``s_t = s_{t-1} + r * (W x_t - s_{t-1}), o_t = s_t, r = sigmoid(w)``
    Source: none
    """

    def __init__(self, hidden_size: Size) -> None:
        super().__init__()
        self.map, self.rate = nn.Linear(hidden_size, hidden_size, bias=False), nn.Parameter(torch.zeros(hidden_size))
        self.hidden_size = self.state_size = hidden_size

    def init_state(self, rows: int, like: Tensor) -> MovingAverageState:
        """Zeros, in single precision at least."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        return MovingAverageState(like.new_zeros(rows, self.hidden_size, dtype=dtype))

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: MovingAverageState | None = None
    ) -> tuple[Tensor, MovingAverageState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        (average,) = state or self.init_state(states.shape[0], states)
        mask = torch.ones_like(states[..., 0], dtype=torch.bool) if mask is None else mask
        inputs, rate = self.map(states.masked_fill(~mask[..., None], 0.0)).to(average.dtype), torch.sigmoid(self.rate)
        outputs = [average[:, None][:, :0]]
        for step in range(states.shape[1]):
            moved = average + rate * (inputs[:, step] - average)
            average = torch.where(mask[:, step, None], moved, average)  # padding leaves it as it was
            outputs.append(average[:, None])
        return torch.cat(outputs, 1).to(states.dtype), MovingAverageState(average)

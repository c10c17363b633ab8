"""The decoder ``leaky``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnx.nn.recurrent import RnnOutput, State
from attnx.registry import PositiveInt, Probability, Size, register


@register("decoder", "leaky")
class Leaky(nn.Module):
    """A state that moves half the way to a map of its inputs.

    Formula: ``h_t = (h_{t-1} + tanh(W [x_t; h_{t-1}])) / 2``
    Source: none
    """

    num_layers, tensors_per_layer = 1, 1

    def __init__(self, input_size: Size, hidden_size: PositiveInt = 256, dropout: Probability = 0.0) -> None:
        super().__init__()
        self.map, self.size = nn.Linear(input_size + hidden_size, hidden_size), hidden_size
        self.dropout = dropout

    def run(
        self,
        inputs: Sequence[Tensor],
        lengths: Tensor | None = None,
        state: State | None = None,
        dropout_masks: Sequence[Tensor | None] = (),
    ) -> RnnOutput:
        """(b, t, ...) side by side -> the states of all steps."""
        assert state is not None
        states = []
        for step in range(inputs[0].shape[1]):
            state = self.step([part[:, step] for part in inputs], state)
            states.append(state[-1][0])
        return RnnOutput([torch.stack(states, 1)], state)

    def step(self, inputs: Sequence[Tensor], state: State, dropout_masks: Sequence[Tensor | None] = ()) -> State:
        """(b, ...) side by side and the previous state -> the next state."""
        hidden = state[-1][0]
        return (((hidden + torch.tanh(self.map(torch.cat([*inputs, hidden], -1)))) / 2,),)

"""The encoder ``averaging``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.nn.contracts import EncoderOutput
from attnx.registry import PositiveInt, Size, register


@register("encoder", "averaging")
class Averaging(nn.Module):
    """A map of every symbol beside the mean of all symbols.

    Formula: ``h_s = tanh(W [x_s; mean(x)])``
    Source: none
    """

    def __init__(self, input_size: Size, hidden_size: PositiveInt = 256) -> None:
        super().__init__()
        self.map, self.size = nn.Linear(2 * input_size, hidden_size), hidden_size

    def forward(self, inputs: Tensor, mask: Tensor, lengths: Tensor | None = None) -> EncoderOutput:
        """(b, s, input_size) and (b, s) bool -> states (b, s, size) and the final state; ``lengths`` are not needed."""
        inputs, count = inputs.masked_fill(~mask[..., None], 0.0), mask.sum(1).clamp(min=1)[:, None]
        mean = inputs.sum(1) / count
        states = torch.tanh(self.map(torch.cat([inputs, mean[:, None].expand_as(inputs)], -1)))
        states = states.masked_fill(~mask[..., None], 0.0)
        return EncoderOutput([states], ((states.sum(1) / count,),))

"""The output ``two_layers``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.nn.contracts import OutputInputs
from attnx.registry import Size, register


@register("output", "two_layers")
class TwoLayers(nn.Module):
    """A hidden layer before the linear map.

    Formula: ``o_t = O tanh(H r_t)``
    Source: none
    """

    needs_weights = False

    def __init__(self, size: Size, width: Size, tied: nn.Parameter | None) -> None:
        super().__init__()
        self.hidden, self.linear = nn.Linear(size, size), nn.Linear(size, width, bias=tied is None)
        if tied is not None:
            self.linear.weight = tied

    def forward(self, vectors: Tensor, inputs: OutputInputs) -> Tensor:
        """Readouts (..., size) -> (..., width)."""
        logits: Tensor = self.linear(torch.tanh(self.hidden(vectors)))
        return logits

    def copy_ids(self, source: Tensor, source_mask: Tensor) -> None:
        """Nothing is copied."""

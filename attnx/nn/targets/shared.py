"""What targets have in common, where they do not say otherwise."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MarkedStates(nn.Module):
    """Each marked step has its own state."""

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(b, t, size) and a mask (b, t) of n steps -> (n, size), in the order of rows."""
        return states[mask]


class SharedTarget:
    """The methods of a :class:`attnx.nn.contracts.TargetSpec` that are alike for symbols and for numbers."""

    def prepare(self, source: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Both as they are."""
        return source, target

    def restore(self, outputs: Tensor, source: Tensor) -> Tensor:
        """The outputs."""
        return outputs

    def marked_states(self, size: int) -> nn.Module:
        """Each step's own state."""
        return MarkedStates()

    def start_input(self, rows: int, device: torch.device) -> Tensor:
        """(rows, ...) the decoder's input at the first step."""
        raise NotImplementedError

    def decoder_inputs(self, source: Tensor, target: Tensor) -> Tensor:
        """The start, and each step of the target (b, t, ...) but the last."""
        return torch.cat([self.start_input(len(target), target.device)[:, None], target[:, :-1]], dim=1)

"""The states that outputs are computed from, where only some steps count."""

from __future__ import annotations

from torch import Tensor, nn


class MarkedStates(nn.Module):
    """Each marked step has its own state."""

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(b, t, size) and a mask (b, t) of n steps -> (n, size), in the order of rows."""
        return states[mask]

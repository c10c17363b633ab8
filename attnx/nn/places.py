"""How a stream's positions are told where they stand: added to what they are, or as turns of queries and keys."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from attnx.nn.positions import sinusoidal
from attnx.ops import turns

Positions = Literal["sinusoidal", "learned", "rotary"]


class PositionEncoding(nn.Module):
    """Vectors of positions, and turns.

    ``sinusoidal`` (Vaswani et al. 2017, section 3.5) and ``learned`` (Gehring et al. 2017, section 3.1,
    https://arxiv.org/abs/1705.03122) are added to the stream's vectors; ``rotary`` (Su et al. 2021,
    https://arxiv.org/abs/2104.09864) turns queries and keys.

    Args:
        width: of the stream.
        positions: which of them.
        longest: so many positions are learned; later ones are as the last.
        head: width of what a head compares.
    """

    def __init__(self, width: int, positions: Positions, longest: int, head: int) -> None:
        super().__init__()
        self.width, self.positions, self.head = width, positions, head
        self.learned = nn.Parameter(torch.randn(longest, width) * width**-0.5) if positions == "learned" else None

    def added(self, at: Tensor) -> Tensor | None:
        """(b or 1, t) int64 -> (b or 1, t, width), what is added at these positions; None of ``rotary``."""
        if self.learned is not None:
            return self.learned[at.clamp(max=len(self.learned) - 1)]
        return sinusoidal(at, self.width) if self.positions == "sinusoidal" else None

    def turn(self, at: Tensor) -> Tensor | None:
        """(b or 1, t) int64 -> (2, b or 1, t, head / 2), how queries and keys are turned; None if they are not."""
        return turns(at, self.head) if self.positions == "rotary" else None

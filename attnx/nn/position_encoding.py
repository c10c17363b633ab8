"""Position encodings: added to embeddings (sinusoidal, learned), rotary, or vectors that keys are made of."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from attnx.ops import turns

Positions = Literal["sinusoidal", "learned", "rotary"]


def one_hot(positions: Tensor, width: int) -> Tensor:
    """(..., m) int64 -> (..., m, width), a 1 at the position; those from ``width`` - 1 on share the last place."""
    return torch.nn.functional.one_hot(positions.clamp(max=width - 1), width).to(torch.get_default_dtype())


def sinusoidal(positions: Tensor, width: int) -> Tensor:
    """(..., m) int64 -> (..., m, width), sines then cosines of wavelengths from 2 pi to 10,000 * 2 pi.

    Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762, with sines and cosines one after another
    rather than in turn.
    """
    halves = (width + 1) // 2
    rates = 10_000.0 ** (-torch.arange(halves, device=positions.device) / halves)
    angles = positions[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :width].to(torch.get_default_dtype())


POSITIONS = {"one_hot": one_hot, "sinusoidal": sinusoidal}


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

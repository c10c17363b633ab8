"""Position encodings: additive (sinusoidal, learned) or rotary; and position vectors used as attention keys."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from attnx.errors import UserError
from attnx.ops import at_least_float32, rope_cos_sin

PositionKind = Literal["sinusoidal", "learned", "rotary", "none"]


def one_hot(positions: Tensor, width: int) -> Tensor:
    """(..., m) int64 -> one-hot vectors (..., m, width); positions from ``width`` - 1 on share the last unit."""
    return torch.nn.functional.one_hot(positions.clamp(max=width - 1), width).to(torch.get_default_dtype())


def sinusoidal(positions: Tensor, width: int) -> Tensor:
    """(..., m) int64 -> (..., m, width), all sines, then all cosines, of wavelengths from 2 pi to 10,000 * 2 pi.

    Source: Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762, where sines and cosines alternate.
    """
    halves = (width + 1) // 2
    dtype = at_least_float32(torch.get_default_dtype())  # 16 bits do not hold angles
    rates = 10_000.0 ** (-torch.arange(halves, device=positions.device, dtype=dtype) / halves)
    angles = positions[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :width].to(torch.get_default_dtype())


POSITIONS = {"one_hot": one_hot, "sinusoidal": sinusoidal}


class PositionEncoding(nn.Module):
    """Position encodings of a transformer: added to the embeddings, applied to queries and keys, or ``none``.

    ``sinusoidal`` (Vaswani et al. 2017, section 3.5) and ``learned`` (Gehring et al. 2017, section 3.1,
    https://arxiv.org/abs/1705.03122) are added; ``rotary`` (Su et al. 2021, https://arxiv.org/abs/2104.09864) rotates
    queries and keys, by angles of ``rotary_base``.
    There are ``max_positions`` learned vectors; later positions share the last.

    Raises:
        UserError: rotary positions, which rotate pairs of numbers, with an odd ``head_size``.
    """

    def __init__(
        self,
        hidden_size: int,
        kind: PositionKind,
        max_positions: int,
        head_size: int,
        rotary_base: float = 10_000.0,
    ) -> None:
        super().__init__()
        if kind == "rotary" and head_size % 2:
            raise UserError(f"position_encoding=rotary needs an even size per head, not {head_size}")
        self.hidden_size, self.kind, self.head_size, self.rotary_base = hidden_size, kind, head_size, rotary_base
        vectors = torch.randn(max_positions, hidden_size) * hidden_size**-0.5 if kind == "learned" else None
        self.learned = None if vectors is None else nn.Parameter(vectors)

    def additive(self, positions: Tensor) -> Tensor | None:
        """(b or 1, t) int64 -> vectors to add (b or 1, t, hidden_size); None for ``rotary`` and ``none``."""
        if self.learned is not None:
            return self.learned[positions.clamp(max=len(self.learned) - 1)]
        return sinusoidal(positions, self.hidden_size) if self.kind == "sinusoidal" else None

    def rotary(self, positions: Tensor) -> Tensor | None:
        """(b or 1, t) int64 -> rotations of queries and keys (2, b or 1, t, head_size / 2); None unless ``rotary``."""
        return rope_cos_sin(positions, self.head_size, self.rotary_base) if self.kind == "rotary" else None

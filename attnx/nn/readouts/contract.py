"""What a readout promises."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Readout(Protocol):
    """Joins state, context and token into the vector that the output layer reads; a part of kind ``readout``.

    Attributes:
        size: width of that vector.
    """

    size: int

    def __call__(self, state: Tensor, context: Tensor, token: Tensor) -> Tensor:
        """(..., state_size), (..., context_size), (..., token_size) -> (..., size)."""
        ...

"""What an output layer promises, and what it may read."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class OutputInputs(NamedTuple):
    """What an output layer may read besides the readout; the leading axes are those of the readouts, (b,) or (b, t).

    Attributes:
        states: (..., d), the top state.
        contexts: (..., v).
        tokens: (..., e), the embedded input.
        weights: (..., m), the attention weights, of several heads their mean; the source's positions come first. None
            unless the layer ``copies`` or they were requested.
        symbols: (b, s) int64, what :meth:`OutputLayer.symbols` returned for the source.
    """

    states: Tensor
    contexts: Tensor
    tokens: Tensor
    weights: Tensor | None
    symbols: Tensor | None


class OutputLayer(Protocol):
    """From the readout to logits; a part of kind ``output``.

    Attributes:
        copies: whether it reads attention weights, to copy symbols of the source.
    """

    copies: bool

    def __call__(self, vectors: Tensor, inputs: OutputInputs) -> Tensor:
        """Readouts (..., size) -> (..., width)."""
        ...

    def symbols(self, source: Tensor, present: Tensor) -> Tensor | None:
        """(b, s) source ids and (b, s) bool -> (b, s) the target ids that may be copied; None if nothing is copied."""
        ...

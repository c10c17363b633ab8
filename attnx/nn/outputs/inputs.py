"""What an output layer may look at beside the readout."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class OutputInputs(NamedTuple):
    """What a decoder knows when it writes; the leading axes are those of the readouts, (b,) or (b, t).

    Attributes:
        states: (..., d), the top state.
        contexts: (..., v), what was read.
        tokens: (..., e), the embedded input.
        weights: (..., m), of how it was read, the mean of all heads; the source's positions come first. None if nobody
            asked.
        symbols: (b, s) int64, what :meth:`symbols` of the output layer made of the source, or None.
    """

    states: Tensor
    contexts: Tensor
    tokens: Tensor
    weights: Tensor | None
    symbols: Tensor | None

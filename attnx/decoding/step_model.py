"""What a decoder needs of a model: begin, and step. Decoders know nothing else of models."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from attnx.attention import Read
from attnx.nn.targets.protocol import TargetSide


class StepModel(Protocol):
    """A model that can be asked for one step at a time.

    Attributes:
        sources: what its memory holds, ``encoder``, ``decoder`` or both, in the order of the weights' columns.
        target: what a step is: what is read first, and what to pick of what :meth:`step` gives.
    """

    sources: tuple[str, ...]
    target: TargetSide

    def begin(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> Any:
        """(b, s) symbols, (b, s) bool and (b,) tags -> the state before the first step."""
        ...

    def step(self, inputs: Tensor, state: Any, need_weights: bool = False) -> tuple[Tensor, Any, Read]:
        """(b, ...) the last step -> the next one as predicted (b, width), the state after, and what was read (q = 1).

        Of symbols: ids (b,) -> log-probabilities (b, symbols).
        """
        ...


class Decoded(NamedTuple):
    """What a search found.

    Attributes:
        written: (b, t) int64 symbols, each row ended by EOS (unless cut off by its limit) and padded with PAD; or
            (b, t, f) scaled numbers, padded with zeros.
        lengths: (b,) int64, how many steps each row has, its EOS included.
        log_probability: (b,) the model's own log-probability of each row, its EOS included; of numbers that of going on
            and ending where it did.
        weights: (b, t, m) attention weights of the path taken, or None; (b, h, t, m) with several heads. Of the columns
            the first are the source's positions, the rest the decoder's own states, as far as the memory holds them.
    """

    written: Tensor
    lengths: Tensor
    log_probability: Tensor
    weights: Tensor | None

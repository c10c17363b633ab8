"""What an encoder promises, and what it returns."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from attnx.nn.recurrent import State


class EncoderOutput(NamedTuple):
    """An encoded source.

    Attributes:
        layers: outputs of every layer, lowest first, each (b, s, size); the last one is "the states". An encoder that
            declares ``shortens`` has fewer of them: the first stands for the first ``downsampling`` steps, and so on.
        final: the state after each layer, as a decoder could start from it.
    """

    layers: list[Tensor]
    final: State


class Encoder(Protocol):
    """Encodes embedded source symbols; a part of kind ``encoder``.

    A class that returns fewer states than the source has steps declares ``shortens = True``; its instances have
    ``downsampling``, the number of source steps that a state stands for.

    Attributes:
        size: width of the states.
    """

    size: int

    def __call__(self, inputs: Tensor, present: Tensor) -> EncoderOutput:
        """(b, s, input_size) and (b, s) bool -> the states; a row without any symbol gives the states of one zero."""
        ...

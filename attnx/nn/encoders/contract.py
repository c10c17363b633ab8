"""What an encoder hands to the model."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from attnx.nn.recurrent import State


class EncoderOutput(NamedTuple):
    """An encoded source.

    Attributes:
        layers: outputs of every layer, lowest first, each (b, s, size); the last one is "the states". An encoder that
            declares ``shortens`` has fewer of them: the first stands for the first ``pace`` steps, and so on.
        final: the state after each layer, as a decoder could start from it.
    """

    layers: list[Tensor]
    final: State

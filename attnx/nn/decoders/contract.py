"""What a decoder's recurrence promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from attnx.nn.recurrent import RnnOutput, State


class Decoder(Protocol):
    """A recurrence over the target, whose top state is what attention and readout see; a part of kind ``decoder``.

    Its constructor has a knob ``hidden_size``, which is its ``size``: other parts are built for that width.

    Attributes:
        size: width of the state h of every layer.
        num_layers: how many layers it has; a state has an entry of each.
        tensors_per_layer: 1 if a layer's state is (h,), 2 if it is (h, c).
        dropout: share of the units dropped between layers. The model draws the masks.
    """

    size: int
    num_layers: int
    tensors_per_layer: int
    dropout: float

    def run(
        self,
        inputs: Sequence[Tensor],
        lengths: Tensor | None = None,
        state: State | None = None,
        dropout_masks: Sequence[Tensor | None] = (),
    ) -> RnnOutput:
        """Run over whole sequences.

        Args:
            inputs: (b, t, ...) side by side, together ``input_size`` wide.
            lengths: (b,) of the rows; left out, every row is full.
            state: the start.
            dropout_masks: (b, t, size), or None, for the inputs of the second layer and up.
        """
        ...

    def step(self, inputs: Sequence[Tensor], state: State, dropout_masks: Sequence[Tensor | None] = ()) -> State:
        """Take one step: inputs (b, ...) side by side and the previous state -> the next, as in :meth:`run`."""
        ...

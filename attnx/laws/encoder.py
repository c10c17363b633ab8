"""The laws of every encoder."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.laws.laws import TensorLaws
from attnx.laws.violation import describe_type, require, require_close, require_tensor
from attnx.nn.contracts import EncoderOutput
from attnx.nn.source_encoder import MARKS

SIZES = {"input_size": 5}
LENGTHS = torch.tensor([7, 4, 1])
SOURCE_MASK = torch.arange(7) < LENGTHS[:, None]


class EncoderLaws(TensorLaws):
    """The laws of every encoder."""

    kind, results, sizes = "encoder", "states", SIZES
    quick = ("declarations", "shapes", "equal_calls_agree", "numbers_are_finite", "rows_are_independent")

    def _inputs(self) -> dict[str, Tensor]:
        return {"inputs": torch.randn(3, 7, 5), "source_mask": SOURCE_MASK.clone()}

    def _compute(self, inputs: Tensor, source_mask: Tensor) -> Tensor:
        """The states of the top layer (b, s, size), and after them its final state."""
        layers, final, _ = self._encode(inputs, source_mask)
        return torch.cat([layers[-1], final[-1][0][:, None]], 1)

    def _encode(self, inputs: Tensor, source_mask: Tensor) -> EncoderOutput:
        """The output, its types and shapes checked."""
        is_mark = (torch.arange(inputs.shape[1]) == 1) & source_mask
        marks = {argument: is_mark for flag, argument, _ in MARKS if self.candidate.declaration(flag, False)}
        encoded = self.part(inputs, source_mask, source_mask.sum(-1), **marks)
        fits = isinstance(encoded, tuple) and len(encoded) in (2, 3)
        contract = "an EncoderOutput (attnx.nn.contracts)"
        require(fits, "forward", f"it returned {describe_type(encoded)} instead of {contract}")
        layers, final, spans = EncoderOutput(*encoded)
        require(isinstance(layers, list) and layers, "forward", "its layers are not a list of tensors, lowest first")
        steps = inputs.shape[1] if spans is None else spans.mask.shape[1]
        require_tensor(layers[-1], "forward", (len(inputs), steps, self.part.size))
        is_nested = isinstance(final, tuple) and final
        require(is_nested, "forward", "its final state is not a tuple with one tuple per layer")
        for state in final:
            is_tuple = isinstance(state, tuple) and state
            require(is_tuple, "forward", "the final state of a layer is not a tuple of tensors")
            require_tensor(state[0], "forward", (len(inputs), self.part.size))
        return EncoderOutput(*encoded)

    def declarations(self) -> None:
        """An encoder is a module with a forward and ``size``, its width."""
        self._require_module()
        self._require_size("its states")

    def shapes(self) -> None:
        """An encoder returns an EncoderOutput: the states and the final state of every layer, lowest first."""
        self._compute(**self._inputs())

    def spans_are_complete(self) -> None:
        """An encoder that ``is_downsampling``, and no other, returns spans; the shares of a state's steps sum to 1."""
        spans = self._encode(**self._inputs()).spans
        is_declared = self._declares("is_downsampling")
        returned = "no spans" if spans is None else "spans"
        require((spans is not None) == is_declared, "is_downsampling", f"it is {is_declared}; it returned {returned}")
        if spans is not None:
            has_state = spans.mask.to(spans.shares.dtype)
            totals = torch.zeros_like(has_state).scatter_add(1, spans.state_index, spans.shares)
            require_close(totals, has_state, "forward", "the shares of a state's steps do not sum to 1")

    def rows_are_independent(self) -> None:
        """The encoding of a row does not depend on other rows, nor on padding with finite numbers."""
        inputs = torch.randn(3, 7, 5)
        together = self._encode(inputs, SOURCE_MASK)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = self._encode(inputs[row : row + 1, :length], SOURCE_MASK[row : row + 1, :length])
            states = alone.layers[-1][0]
            in_batch = together.layers[-1][row, : len(states)]
            require_close(in_batch, states, "forward", f"row {row} has other states in a batch")
            for state, expected in zip(together.final, alone.final, strict=True):
                difference = f"row {row} has another final state in a batch"
                for tensor, expected_tensor in zip(state, expected, strict=True):
                    require_close(tensor[row], expected_tensor[0], "forward", difference)

    def numbers_are_finite(self) -> None:
        """States and gradients are finite, also those of an empty row."""
        inputs = self._inputs()
        self._require_finite({**inputs, "source_mask": inputs["source_mask"] & (LENGTHS > 1)[:, None]})

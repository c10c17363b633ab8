"""The laws of the networks around attention: encoders, decoders, readouts and output layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnx.laws.laws import StepLaws, TensorLaws, quick
from attnx.laws.violation import describe_type, require, require_close, require_tensor
from attnx.nn.contracts import EncoderOutput, OutputInputs
from attnx.nn.recurrent import State
from attnx.nn.source_encoder import MARKS

INPUT = {"input_size": 5}  # of encoders and decoders
STEP = {"state_size": 13, "context_size": 11, "token_size": 7}  # what readouts and output layers read
LENGTHS = torch.tensor([7, 4, 1])
SOURCE_MASK = torch.arange(7) < LENGTHS[:, None]
DECODER_STEPS = 4
# The protocol :class:`attnx.nn.contracts.Decoder`.
DECODER_MEMBERS = ("run", "step", "num_layers", "size", "tensors_per_layer", "dropout")
READOUT, SYMBOLS = 19, 17
COPIED = torch.tensor([[4, 5, 3, 22, 7], [9, 16, 0, 0, 0]])  # the source that an output layer may copy


class EncoderLaws(TensorLaws):
    """The laws of every encoder."""

    kind, results, sizes = "encoder", "states", INPUT

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

    @quick
    def declarations(self) -> None:
        """An encoder is a module with a forward and ``size``, its width."""
        self._require_module()
        self._require_size("its states")

    @quick
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

    @quick
    def numbers_are_finite(self) -> None:
        """States and gradients are finite, also those of an empty row."""
        inputs = self._inputs()
        self._require_finite({**inputs, "source_mask": inputs["source_mask"] & (LENGTHS > 1)[:, None]})

    @quick
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


class DecoderLaws(TensorLaws):
    """The laws of every decoder: a recurrence that runs over a full target, or takes one step."""

    kind, member, results, sizes = "decoder", "run", "states", INPUT

    def _inputs(self) -> dict[str, Tensor]:
        names = [f"state {layer}.{i}" for layer in range(self.part.num_layers) for i in range(self._per_layer)]
        return {"inputs": torch.randn(3, DECODER_STEPS, 5), **{name: torch.randn(3, self.part.size) for name in names}}

    def _compute(self, inputs: Tensor, **state: Tensor) -> Tensor:
        """The top states (b, t, size) of a run over all steps."""
        outputs = self.part.run([inputs], state=self._layers(state)).outputs
        return require_tensor(outputs[-1], "run", (*inputs.shape[:2], self.part.size))

    @property
    def _per_layer(self) -> int:
        return int(self.part.tensors_per_layer)

    def _layers(self, state: dict[str, Tensor]) -> State:
        """The tensors of a state by layer."""
        tensors = iter(state.values())
        return tuple(zip(*[tensors] * self._per_layer, strict=True))

    @quick
    def declarations(self) -> None:
        """A decoder is an nn.Module with the protocol :class:`attnx.nn.contracts.Decoder`.

        Its option ``hidden_size`` is its size: other parts are built by it.
        """
        require(isinstance(self.part, nn.Module), "", "it is no torch.nn.Module")
        missing = [name for name in DECODER_MEMBERS if not hasattr(self.part, name)]
        require(not missing, "", f"it has no {', '.join(missing)}")
        options = {option.name: option.default for option in self.candidate.info.options} | dict(self.candidate.options)
        size, hidden_size = self.part.size, options.get("hidden_size")
        require(hidden_size is not None, "", "it has no option hidden_size, the width of its state")
        require(size == hidden_size, "", f"its size is {size}, and its option hidden_size {hidden_size}")

    @quick
    def steps_equal_one_run(self) -> None:
        """Steps one after another give the states (b, t, size) of one run over all of them."""
        inputs = self._inputs()
        full = self._compute(**inputs)
        states = self._layers({name: inputs[name] for name in inputs if name != "inputs"})
        for step in range(DECODER_STEPS):
            states = self.part.step([inputs["inputs"][:, step]], states)
            require_close(states[-1][0], full[:, step], "", f"step {step} differs from the run")


class ReadoutLaws(StepLaws):
    """The laws of every readout."""

    kind, sizes = "readout", STEP

    def _inputs(self, leading: tuple[int, ...] = (2, 3)) -> dict[str, Tensor]:
        names = ("states", "contexts", "tokens")
        return {name: torch.randn(*leading, size) for name, size in zip(names, STEP.values(), strict=True)}

    def _compute(self, states: Tensor, contexts: Tensor, tokens: Tensor) -> Tensor:
        shape = (*states.shape[:-1], self.part.size)
        return require_tensor(self.part(states, contexts, tokens), "forward", shape)

    @quick
    def declarations(self) -> None:
        """A readout is an nn.Module with a forward and a ``size``, the width of its output."""
        self._require_module()
        self._require_size("its output")

    @quick
    def shapes(self) -> None:
        """States, contexts and tokens of one step (b, ...) or of all (b, t, ...) give vectors (..., size)."""
        for leading in ((2,), (2, 3)):
            self._compute(**self._inputs(leading))


class OutputLaws(StepLaws):
    """The laws of every output layer, for 17 symbols, of which those from 4 are in the source vocabulary, too."""

    kind = "output"
    methods = ("forward", "copy_ids")

    def _build(self) -> Any:
        part = self.candidate.build(size=READOUT, width=SYMBOLS, tied=None, **STEP)
        if hasattr(part, "set_vocabulary_map"):
            part.set_vocabulary_map([index if 4 <= index < SYMBOLS else 0 for index in range(23)])
        return part

    def _inputs(self) -> dict[str, Tensor]:
        sizes = {"readouts": READOUT, "states": 13, "contexts": 11, "tokens": 7}
        inputs = {name: torch.randn(2, 3, size) for name, size in sizes.items()}
        weights = torch.softmax(torch.randn(2, 3, COPIED.shape[1]), -1)
        return {**inputs, "weights": weights, "source_rows": torch.arange(2)[:, None].expand(2, 3)}

    def _compute(self, readouts: Tensor, *, source_rows: Tensor, **inputs: Tensor) -> Tensor:
        """The outputs (b, t, 17); ``source_rows`` (b, t) are the rows of the source that may be copied."""
        source = COPIED[source_rows[:, 0]]
        copy_ids = self.part.copy_ids(source, source != 0)
        outputs = self.part(readouts, OutputInputs(**inputs, copy_ids=copy_ids))
        return require_tensor(outputs, "forward", (*readouts.shape[:-1], SYMBOLS))

    @quick
    def declarations(self) -> None:
        """An output layer is an nn.Module with forward and copy_ids, and declares whether it ``needs_weights``."""
        self._require_declarations()
        self._require_module()

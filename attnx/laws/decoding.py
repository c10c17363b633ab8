"""The laws of every search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.data.vocabulary import EOS, PAD
from attnx.decoding.contracts import DecodeResult
from attnx.laws.laws import PartLaws, quick
from attnx.laws.small import TARGET_SYMBOLS, small_config, small_model
from attnx.laws.violation import describe_type, require, require_close, require_tensor

SOURCE = torch.tensor(
    [[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0], [7, 7, 3, 19, 5, 0, 0]]
)
SOURCE_MASK = SOURCE != 0
PREFIX = torch.tensor([[5, 7, 11], [13, 0, 0], [16, 4, 0], [4, 4, 0]])


def confident_model(**choices: Any) -> Any:
    """A small model whose symbols differ in probability."""
    model = small_model(small_config(**choices)).eval()
    with torch.no_grad():
        getattr(model.output, "vocabulary", model.output).weight *= 11
    return model


class DecodingLaws(PartLaws):
    """The laws of every search."""

    kind = "decoding"
    methods = ("check",)

    def _decode(
        self, model: Any, source: Tensor = SOURCE, source_mask: Tensor = SOURCE_MASK, **kwargs: Any
    ) -> DecodeResult:
        """Decode, and check the types and shapes of the result."""
        with torch.no_grad():
            result: DecodeResult = self.part(model, source, source_mask, **kwargs)
        is_result = isinstance(result, DecodeResult)
        require(is_result, "__call__", f"it returned {describe_type(result)} instead of a DecodeResult")
        written = require_tensor(result.sequences, "__call__", (len(source), None, None))
        for value in (result.lengths, result.log_probability, result.score):
            require_tensor(value, "__call__", written.shape[:2])
        require((result.lengths <= written.shape[2]).all(), "__call__", "lengths exceed the outputs")
        return result

    @quick
    def declarations(self) -> None:
        """A search is called with a model and a batch, and its ``check`` looks at a model before it is trained."""
        require(callable(self.part), "", "it cannot be called")
        self._require_methods()
        self.part.check(confident_model())

    @quick
    def shapes(self) -> None:
        """A search finds n hypotheses a row, best first, with weights if they are asked for."""
        result = self._decode(confident_model(), need_weights=True)
        is_ordered = result.score[:, 1:] <= result.score[:, :-1]  # a difference of missing hypotheses would be NaN
        require(is_ordered.all(), "__call__", "hypotheses are not in the order of their scores")
        require_tensor(result.weights, "__call__", (*result.sequences.shape, None))

    @quick
    def equal_calls_agree(self) -> None:
        """Two equal searches find the same, in every bit: what is drawn follows from a seed that is an option."""
        model = confident_model()
        first, second = (self._decode(model) for _ in range(2))
        for name in ("lengths", "sequences", "log_probability", "score"):
            actual, expected = getattr(second, name), getattr(first, name)
            is_same = torch.equal(actual, expected)
            require(is_same, "__call__", f"two equal calls differ in their {name.replace('_', ' ')}")

    def rows_are_independent(self) -> None:
        """The output of a row does not depend on other rows, nor on padding."""
        for scope in ("global", "encoder_decoder"):
            model = confident_model(scope=scope)
            together = self._decode(model)
            for row, length in enumerate(SOURCE_MASK.sum(-1).tolist()):
                pick = slice(row, row + 1)
                alone = self._decode(model, SOURCE[pick, :length], SOURCE_MASK[pick, :length])
                same = torch.equal(alone.lengths, together.lengths[pick])
                steps = int(alone.lengths.max()) if same else 0
                same = same and torch.equal(alone.sequences[..., :steps], together.sequences[pick, :, :steps])
                require(same, "__call__", f"row {row} has another output in a batch")

    def log_probabilities_are_the_models(self) -> None:
        """The log-probability of every hypothesis is the sum of the model's over its steps; the weights are those."""
        model = confident_model()
        result = self._decode(model, need_weights=True)
        written, lengths = result.sequences.flatten(0, 1), result.lengths.flatten()
        source, mask = (part.repeat_interleave(result.sequences.shape[1], 0) for part in (SOURCE, SOURCE_MASK))
        with torch.no_grad():
            inputs = model.target.decoder_inputs(source, written)
            output = model(source, mask, inputs, need_weights=True)
        steps = torch.log_softmax(output.logits, -1).gather(-1, written[..., None])[..., 0]
        is_step = torch.arange(written.shape[1]) < lengths[:, None]
        total, has_output = (steps * is_step).sum(-1), lengths > 0
        difference = "the log-probability is not the model's"
        require_close(result.log_probability.flatten()[has_output], total[has_output], "__call__", difference)
        weights = require_tensor(result.weights, "__call__", (*result.sequences.shape, SOURCE.shape[1])).flatten(0, 1)
        require_close(weights[is_step], output.weights[is_step], "__call__", "the weights are not the model's")

    def prefixes_are_kept(self) -> None:
        """Every hypothesis begins as its row's prefix says."""
        result = self._decode(confident_model(), prefix=PREFIX)
        require(result.sequences.shape[2] >= PREFIX.shape[1], "__call__", "an output is shorter than its prefix")
        is_kept = (result.sequences[..., : PREFIX.shape[1]] == PREFIX[:, None]) | (PREFIX == PAD)[:, None]
        is_kept = is_kept.all(-1) | (result.lengths == 0)
        require(is_kept.all(), "__call__", "a hypothesis does not begin with its prefix")

    def filters_are_obeyed(self) -> None:
        """No hypothesis holds a symbol that the filter forbids; its rows are those of the source."""
        model = confident_model()
        forbidden = self._decode(model).sequences[:, 0, 0]  # what each row would begin with

        def allow(written: Tensor, rows: Tensor) -> Tensor:
            symbols = torch.arange(TARGET_SYMBOLS)
            return (symbols != forbidden[rows, None]) | (symbols == EOS)

        result = self._decode(model, token_filter=allow)
        is_forbidden = (result.sequences == forbidden[:, None, None]) & (forbidden != EOS)[:, None, None]
        is_step = torch.arange(result.sequences.shape[2]) < result.lengths[..., None]
        require(not (is_forbidden & is_step).any(), "__call__", "a hypothesis holds a symbol that the filter forbids")

"""The laws of every model of symbols or rows of features: rows, decoding steps, schedules, gradients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.laws import Laws
from attnx.laws.small import model_with
from attnx.laws.violation import require, require_close, require_equal, require_finite, require_tensor
from attnx.nn.targets.numbers import Numbers

# Two rows of different lengths and tags.
SOURCE = torch.tensor([[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0]])
SOURCE_MASK = SOURCE != 0
INPUTS = torch.tensor([[1, 5, 3, 8], [1, 7, 13, 2]])
TAG = torch.tensor([2, 0])
EXTRA_POSITIONS = 3  # of padding, appended to a source
# Schedules and batches sum gradients in different orders.
TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}


def outputs_and_gradients(laws: ModelLaws, schedule: str | None = None) -> dict[str, Tensor]:
    """The outputs of a pass, by a schedule if one is named, and the gradients of all parameters."""
    torch.manual_seed(47)  # the same dropout masks in every schedule
    laws.model.zero_grad(set_to_none=True)
    kwargs = {} if schedule is None else {"schedule": schedule}
    output = laws.model(laws.source, SOURCE_MASK, laws.inputs, TAG, need_weights=True, **kwargs)
    slope = torch.linspace(-1, 1, output.logits.numel(), dtype=output.logits.dtype)
    loss = (output.logits * slope.reshape(output.logits.shape)).sum()
    terms = [term.sum() for term in (output.penalty, output.log_prob) if term is not None]
    torch.stack([loss, *terms]).sum().backward()  # type: ignore[no-untyped-call]
    results = {name: tensor.detach() for name, tensor in output._asdict().items() if tensor is not None}
    return results | _gradients(laws.model)


def require_same_results(actual: dict[str, Tensor], expected: dict[str, Tensor], difference: str) -> None:
    """Check that outputs and gradients, by name, are the same."""
    require(actual.keys() == expected.keys(), "forward", f"{difference}: {sorted(actual.keys() ^ expected.keys())}")
    for name, tensor in expected.items():
        require_close(actual[name], tensor, "forward", f"{difference}: {name} differs", **TOLERANCE)


def _gradients(model: Any) -> dict[str, Tensor]:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def _outputs_of_batches(model: Any, *batches: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], list[Any]]:
    """The logits of all batches with the gradients of their sum, and the output of each batch."""
    model.zero_grad(set_to_none=True)
    outputs = [model(*batch, need_weights=True) for batch in batches]
    torch.stack([output.logits.pow(2).sum() for output in outputs]).sum().backward()  # type: ignore[no-untyped-call]
    return {"logits": torch.cat([output.logits.detach() for output in outputs])} | _gradients(model), outputs


class ModelLaws(Laws):
    """The laws of a model.

    The source is (b, s) symbols, or (b, s, features), the decoder's inputs are (b, t) or (b, t, features).
    """

    kind, suffix = "model", " in a model"

    def __init__(self, model: Any, source: Tensor = SOURCE, inputs: Tensor = INPUTS) -> None:
        self.model, self.source, self.inputs = model, source, inputs

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Self]:
        """A small model that contains the candidate."""
        if candidate.kind == "model" and candidate.declaration("needs_other_data", False):
            raise LawSkipped("the laws use symbols, but this model reads or outputs other data")
        reads_texts = candidate.declaration("needs_sentences", False) or candidate.declaration("needs_pairs", False)
        if candidate.kind == "encoder" and reads_texts:
            raise LawSkipped("only a classifier reads sentences or pairs of texts")
        yield cls(model_with(candidate))
        if candidate.kind == "query" and candidate.declaration("needs") == "prev_state":
            yield cls(model_with(candidate, feed="none"))  # the other way to feed admits one schedule alone

    @cached_property
    def _output(self) -> Any:
        """The output for the inputs in evaluation, computed once for all laws of this object."""
        with torch.no_grad():
            return self._run(self.inputs)

    def _run(self, inputs: Tensor) -> Any:
        """The output of a teacher-forced pass, its logits checked."""
        output = self.model(self.source, SOURCE_MASK, inputs, TAG, need_weights=True)
        logits = require_tensor(getattr(output, "logits", None), "forward", (*inputs.shape[:2], None))
        require_finite(logits, "forward", "logits")
        return output

    @torch.no_grad()
    def equal_calls_agree(self) -> None:
        """Two equal passes give the same outputs, in every bit: nothing is drawn but in training."""
        require_equal(self._run(self.inputs.clone()).logits, self._output.logits, "forward")

    def every_parameter_has_a_gradient(self) -> None:
        """Every parameter has a gradient in training; distributed training stops at one without."""
        self.model.train()
        trained = outputs_and_gradients(self).keys()
        self.model.eval()
        unused = {name for name, value in self.model.named_parameters() if value.requires_grad} - trained
        require(not unused, "forward", f"no gradient for {', '.join(sorted(unused))}")

    def schedules_agree(self) -> None:
        """All schedules that the plan admits give the same outputs and gradients, with the same dropout masks.

        In training, or in evaluation if positions are sampled: each schedule would sample others.
        """
        if (plan := getattr(self.model, "plan", None)) is None or len(plan.valid_schedules) == 1:
            raise LawSkipped("one schedule alone is admitted")
        self.model.train(not any(getattr(module, "is_sampled", False) for module in self.model.modules()))
        results = {schedule: outputs_and_gradients(self, schedule) for schedule in plan.valid_schedules}
        self.model.eval()
        first = plan.valid_schedules[0]
        for schedule in plan.valid_schedules[1:]:
            require_same_results(results[schedule], results[first], f"{schedule} and {first} differ")

    def rows_are_independent(self) -> None:
        """Outputs, weights and gradients of a row depend neither on other rows nor on padding, even of NaN."""
        model, source, inputs, length = self.model, self.source, self.inputs, SOURCE.shape[1]
        worst = torch.nan if source.is_floating_point() else 17
        hidden = source.masked_fill(~SOURCE_MASK if source.dim() == 2 else ~SOURCE_MASK[..., None], worst)
        longer = torch.cat([hidden, hidden.new_full((2, EXTRA_POSITIONS, *source.shape[2:]), worst)], 1)
        source_mask = torch.cat([SOURCE_MASK, torch.zeros(2, EXTRA_POSITIONS, dtype=torch.bool)], 1)
        together, (padded,) = _outputs_of_batches(model, (longer, source_mask, inputs, TAG))
        lengths = SOURCE_MASK.sum(-1).tolist()
        rows = [
            (source[i : i + 1, :size], SOURCE_MASK[i : i + 1, :size], inputs[i : i + 1], TAG[i : i + 1])
            for i, size in enumerate(lengths)
        ]
        alone, tight = _outputs_of_batches(model, *rows)
        require_same_results(together, alone, "in a batch with other rows and padding")
        for i, (output, size) in enumerate(zip(tight, lengths, strict=True)):
            if output.weights is not None:
                first, last = (size, length + EXTRA_POSITIONS) if "encoder" in model.sources else (0, 0)
                shown = padded.weights[i]
                joined = torch.cat([shown[..., :first], shown[..., last:]], -1)
                require_close(joined, output.weights[0], "forward", f"row {i} has other weights in a batch")
                require((shown[..., first:last] == 0).all(), "forward", "padding has a weight above 0")
            if output.penalty is not None:
                difference = f"row {i} has another penalty in a batch"
                require_close(padded.penalty[i], output.penalty[0], "forward", difference)

    @torch.no_grad()
    def steps_equal_the_pass(self) -> None:
        """Decoding step by step gives the outputs of a teacher-forced pass, also after rows are selected."""
        model, inputs, order = self.model, self.inputs, torch.tensor([1, 0, 1])
        output, mixed = self._output, "selected rows of a state give other outputs"
        expected = output.logits if isinstance(model.target, Numbers) else torch.log_softmax(output.logits, -1)
        state = model.init_state(self.source, SOURCE_MASK, TAG)
        for step in range(inputs.shape[1]):
            selected = model.select_rows(state, order)
            predictions, state, attention = model.decode_step(inputs[:, step], state, need_weights=True)
            require_close(predictions, expected[:, step], "step", f"step {step} differs from the pass")
            if output.weights is not None:
                current, later = output.weights[..., step, :].tensor_split([attention.weights.shape[-1]], dim=-1)
                difference = f"step {step} has other weights than the pass"
                require_close(attention.weights[..., 0, :], current, "step", difference)
                require((later == 0).all(), "forward", "the pass has weights on positions that a step does not have")
            if output.penalty is not None:
                difference = f"step {step} has another penalty"
                require_close(attention.penalty[:, 0], output.penalty[:, step], "step", difference)
            selected_predictions, _, rows = model.decode_step(inputs[order, step], selected, need_weights=True)
            for part, full in zip((selected_predictions, *rows), (predictions, *attention), strict=True):
                require((part is None) == (full is None), "select_rows", mixed)
                if part is not None:
                    require_close(part, full[order], "select_rows", mixed)

    @torch.no_grad()
    def later_inputs_have_no_effect(self) -> None:
        """A decoder input has no effect on earlier outputs."""
        changed = self.inputs.index_fill(1, torch.tensor([2]), 11)
        first, second = self._output.logits, self._run(changed).logits
        require_close(second[:, :2], first[:, :2], "forward", "a later input changes an earlier output")

"""The laws of every model that reads and writes symbols or rows of features: rows, steps, schedules, gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx.laws.violation import require, require_close, require_finite, require_tensor
from attnx.nn.targets.numbers import Numbers

# Rows of unlike length and tag; the target is read by all.
SOURCE = torch.tensor([[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0]])
PRESENT = SOURCE != 0
INPUTS = torch.tensor([[1, 5, 3, 8], [1, 7, 13, 2]])
TAG = torch.tensor([2, 0])
EXTRA = 3  # absent positions that are put behind a source
# Gradients add up over schedules and rows in another order.
WITHIN = {"rtol": 1e-7, "atol": 1e-9}


class Case(NamedTuple):
    """A model and what it is given.

    Attributes:
        model: in evaluation mode.
        source: (b, s) symbols, or (b, s, features).
        inputs: (b, t) symbols that its decoder reads, or (b, t, features).
    """

    model: Any
    source: Tensor = SOURCE
    inputs: Tensor = INPUTS

    @property
    def batch(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What a pass is called with."""
        return self.source, PRESENT, self.inputs, TAG


def outputs(case: Case) -> Any:
    """A pass over the whole target, its logits of the right shape."""
    output = case.model(*case.batch, need_weights=True)
    logits = require_tensor(getattr(output, "logits", None), "forward", (*case.inputs.shape[:2], None))
    require_finite(logits, "forward", "logits")
    return output


def _gradients(model: Any) -> dict[str, Tensor]:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def learned(case: Case, schedule: str | None = None) -> dict[str, Tensor]:
    """What comes out of a pass, by a schedule if one is named, and the gradient of every parameter that has one."""
    torch.manual_seed(47)  # every schedule draws the same masks
    case.model.zero_grad(set_to_none=True)
    named = {} if schedule is None else {"schedule": schedule}
    output = case.model(*case.batch, need_weights=True, **named)
    slope = torch.linspace(-1, 1, output.logits.numel(), dtype=output.logits.dtype)
    loss = (output.logits * slope.reshape(output.logits.shape)).sum()
    (loss if output.penalty is None else loss + output.penalty.sum()).backward()
    found = {name: tensor.detach() for name, tensor in output._asdict().items() if tensor is not None}
    return found | _gradients(case.model)


def require_same(found: dict[str, Tensor], expected: dict[str, Tensor], difference: str) -> None:
    """Raise a violation unless outputs and gradients, by name, are the same."""
    require(found.keys() == expected.keys(), "forward", f"{difference}: {sorted(found.keys() ^ expected.keys())}")
    for name, tensor in expected.items():
        require_close(found[name], tensor, "forward", f"{difference}: {name} differs", **WITHIN)


def every_parameter_is_used(case: Case) -> None:
    """Every parameter has a gradient, by every schedule; one without would stop training by several processes."""
    trained = learned(case).keys()
    unused = {name for name, value in case.model.named_parameters() if value.requires_grad} - trained
    require(not unused, "forward", f"nothing trains {', '.join(sorted(unused))}")


def schedules_agree(case: Case) -> None:
    """Every schedule that the plan admits gives the same outputs and gradients, with the same dropout."""
    if (plan := getattr(case.model, "plan", None)) is None:
        return
    case.model.train()
    first, *others = (learned(case, schedule) for schedule in plan.admitted)
    case.model.eval()
    for schedule, other in zip(plan.admitted[1:], others, strict=True):
        require_same(other, first, f"{schedule} and {plan.admitted[0]} are unlike")


def rows_are_independent(case: Case) -> None:
    """Neither other rows nor padding, whatever stands there, change outputs, weights or gradients."""
    model, source, inputs, length = case.model, case.source, case.inputs, SOURCE.shape[1]
    worst = torch.nan if source.is_floating_point() else 17
    hidden = source.masked_fill(~PRESENT if source.dim() == 2 else ~PRESENT[..., None], worst)
    longer = torch.cat([hidden, hidden.new_full((2, EXTRA, *source.shape[2:]), worst)], 1)
    present = torch.cat([PRESENT, torch.zeros(2, EXTRA, dtype=torch.bool)], 1)
    together, (padded,) = _outcome(model, (longer, present, inputs, TAG))
    lengths = PRESENT.sum(-1).tolist()
    rows = [
        (source[i : i + 1, :size], PRESENT[i : i + 1, :size], inputs[i : i + 1], TAG[i : i + 1])
        for i, size in enumerate(lengths)
    ]
    alone, tight = _outcome(model, *rows)
    require_same(together, alone, "beside other rows and padding")
    for i, (output, size) in enumerate(zip(tight, lengths, strict=True)):
        if output.weights is not None:
            first, behind = (size, length + EXTRA) if "encoder" in model.sources else (0, 0)
            shown = padded.weights[i]
            joined = torch.cat([shown[..., :first], shown[..., behind:]], -1)
            require_close(joined, output.weights[0], "forward", f"row {i} reads otherwise beside other rows")
            require((shown[..., first:behind] == 0).all(), "forward", "padding weighs something")
        if output.penalty is not None:
            require_close(padded.penalty[i], output.penalty[0], "forward", f"row {i} has another penalty")


def _outcome(model: Any, *batches: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], list[Any]]:
    """The logits of all batches, with the gradients of all together, and each batch's output."""
    model.zero_grad(set_to_none=True)
    found = [model(*batch, need_weights=True) for batch in batches]
    torch.stack([output.logits.pow(2).sum() for output in found]).sum().backward()  # type: ignore[no-untyped-call]
    return {"logits": torch.cat([output.logits.detach() for output in found])} | _gradients(model), found


@torch.no_grad()
def steps_are_the_pass(case: Case) -> None:
    """Steps of generation, given the target, are what one pass over it gives; rows between them can be reordered."""
    model, inputs, order = case.model, case.inputs, torch.tensor([1, 0, 1])
    output = outputs(case)
    expected = output.logits if isinstance(model.target, Numbers) else torch.log_softmax(output.logits, -1)
    state = model.init_state(case.source, PRESENT, TAG)
    for step in range(inputs.shape[1]):
        other = model.select_rows(state, order)
        found, state, read = model.decode_step(inputs[:, step], state, need_weights=True)
        require_close(found, expected[:, step], "step", f"step {step} is not what the pass gives")
        if output.weights is not None:
            known, later = output.weights[..., step, :].tensor_split([read.weights.shape[-1]], dim=-1)
            require_close(read.weights[..., 0, :], known, "step", f"step {step} reads otherwise than the pass")
            require((later == 0).all(), "forward", "the pass reads positions that a step does not have")
        if output.penalty is not None:
            require_close(read.penalty[:, 0], output.penalty[:, step], "step", f"step {step} has another penalty")
        found_other, _, read_other = model.decode_step(inputs[order, step], other, need_weights=True)
        for one, straight in zip((found_other, *read_other), (found, *read), strict=True):
            require((one is None) == (straight is None), "take", "rows of a state give something else")
            if one is not None:
                require_close(one, straight[order], "take", "rows of a state do not step as they did in their places")


@torch.no_grad()
def nothing_looks_ahead(case: Case) -> None:
    """Another symbol that the decoder reads changes no earlier output."""
    changed = case._replace(inputs=case.inputs.index_fill(1, torch.tensor([2]), 11))
    first, second = outputs(case).logits, outputs(changed).logits
    require_close(second[:, :2], first[:, :2], "forward", "a later symbol changes an earlier output")


OF_A_CASE = (
    every_parameter_is_used,
    schedules_agree,
    rows_are_independent,
    steps_are_the_pass,
    nothing_looks_ahead,
)

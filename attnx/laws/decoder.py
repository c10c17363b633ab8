"""The laws of every decoder: a recurrence that runs over a full target, or takes one step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnx.laws.candidate import Candidate
from attnx.laws.gradients import require_used
from attnx.laws.violation import require, require_close, require_finite, require_tensor
from attnx.nn.recurrent import State

INPUT, ROWS, STEPS = 5, 3, 4
# The protocol :class:`attnx.nn.contracts.Decoder`.
MEMBERS = ("run", "step", "num_layers", "size", "tensors_per_layer", "dropout")


def random_state(part: Any) -> State:
    """A random state for every layer."""
    return tuple(
        tuple(torch.randn(ROWS, part.size) for _ in range(part.tensors_per_layer)) for _ in range(part.num_layers)
    )


def run(part: Any, inputs: Tensor, state: State) -> Tensor:
    """The top states (b, t, size) of a run over all steps."""
    outputs = part.run([inputs], state=state).outputs
    return require_tensor(outputs[-1], "", (*inputs.shape[:2], part.size))


def declarations(decoder: Candidate) -> None:
    """A decoder is an nn.Module with the protocol :class:`attnx.nn.contracts.Decoder`.

    Its knob ``hidden_size`` is its size: other parts are built by it.
    """
    part = decoder.build(input_size=INPUT)
    require(isinstance(part, nn.Module), "", "it is no torch.nn.Module")
    missing = [name for name in MEMBERS if not hasattr(part, name)]
    require(not missing, "", f"it has no {', '.join(missing)}")
    hidden_size = decoder.knobs.get(
        "hidden_size", {knob.name: knob.default for knob in decoder.info.knobs}.get("hidden_size")
    )
    require(hidden_size is not None, "", "it has no knob hidden_size, the width of its state")
    require(part.size == hidden_size, "", f"its size is {part.size}, and its knob hidden_size {hidden_size}")


def steps_equal_one_run(decoder: Candidate) -> None:
    """Steps one after another give the states (b, t, size) of one run over all of them."""
    part = decoder.build(input_size=INPUT)
    inputs, state = torch.randn(ROWS, STEPS, INPUT), random_state(part)
    full = run(part, inputs, state)
    for step in range(STEPS):
        state = part.step([inputs[:, step]], state)
        require_close(state[-1][0], full[:, step], "", f"step {step} differs from the run")


def rows_are_independent(decoder: Candidate) -> None:
    """The states of a row do not depend on other rows."""
    part = decoder.build(input_size=INPUT)
    inputs, state = torch.randn(ROWS, STEPS, INPUT), random_state(part)
    together = run(part, inputs, state)
    for pick in (slice(row, row + 1) for row in range(ROWS)):
        alone = run(part, inputs[pick], tuple(tuple(tensor[pick] for tensor in layer) for layer in state))
        require_close(alone, together[pick], "", f"row {pick.start} has other states in a batch")


def numbers_are_finite(decoder: Candidate) -> None:
    """States and gradients are finite, and every parameter has a gradient."""
    part = decoder.build(input_size=INPUT)
    states = run(part, torch.randn(ROWS, STEPS, INPUT), random_state(part))
    require_finite(states, "", "states")
    states.sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)
    for name, weight in part.named_parameters():
        require_finite(weight.grad, "", f"gradients of the parameter {name}")


QUICK = (declarations, numbers_are_finite, steps_equal_one_run, rows_are_independent)
LAWS = QUICK

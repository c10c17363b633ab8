"""The laws of every decoder: a recurrence that runs over a whole target, or takes one step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnx.laws.candidate import Candidate
from attnx.laws.gradients import require_used
from attnx.laws.violation import require, require_close, require_finite, require_tensor
from attnx.nn.recurrent import State

INPUT, ROWS, STEPS = 5, 3, 4
# The protocol :class:`attnx.nn.decoders.contract.Decoder`.
MEMBERS = ("run", "step", "num_layers", "size", "tensors_per_layer", "dropout")


def start(part: Any) -> State:
    """A random state of every layer."""
    return tuple(
        tuple(torch.randn(ROWS, part.size) for _ in range(part.tensors_per_layer)) for _ in range(part.num_layers)
    )


def run(part: Any, inputs: Tensor, state: State) -> Tensor:
    """The top states of all steps at once."""
    outputs = part.run([inputs], state=state).outputs
    return require_tensor(outputs[-1], "", (*inputs.shape[:2], part.size))


def declarations(decoder: Candidate) -> None:
    """A decoder is an nn.Module with the protocol :class:`attnx.nn.decoders.contract.Decoder`.

    Its knob ``hidden_size`` is its size: other parts are built by it.
    """
    part = decoder.build(input_size=INPUT)
    require(isinstance(part, nn.Module), "", "it is no torch.nn.Module")
    missing = [name for name in MEMBERS if not hasattr(part, name)]
    require(not missing, "", f"it has no {', '.join(missing)}")
    hidden = decoder.knobs.get(
        "hidden_size", {knob.name: knob.default for knob in decoder.info.knobs}.get("hidden_size")
    )
    require(hidden is not None, "", "it has no knob hidden_size, the width of its state")
    require(part.size == hidden, "", f"its size is {part.size}, and its knob hidden_size {hidden}")


def a_loop_is_all_at_once(decoder: Candidate) -> None:
    """Steps one after another give the states (b, t, size) that a run over all gives."""
    part = decoder.build(input_size=INPUT)
    inputs, state = torch.randn(ROWS, STEPS, INPUT), start(part)
    whole = run(part, inputs, state)
    for step in range(STEPS):
        state = part.step([inputs[:, step]], state)
        require_close(state[-1][0], whole[:, step], "", f"step {step} is not what the run gives")


def rows_are_independent(decoder: Candidate) -> None:
    """A row runs as it does alone."""
    part = decoder.build(input_size=INPUT)
    inputs, state = torch.randn(ROWS, STEPS, INPUT), start(part)
    together = run(part, inputs, state)
    for pick in (slice(row, row + 1) for row in range(ROWS)):
        alone = run(part, inputs[pick], tuple(tuple(tensor[pick] for tensor in layer) for layer in state))
        require_close(alone, together[pick], "", f"row {pick.start} runs otherwise beside other rows")


def numbers_are_finite(decoder: Candidate) -> None:
    """States are finite, and so is every parameter's gradient; each has one."""
    part = decoder.build(input_size=INPUT)
    states = run(part, torch.randn(ROWS, STEPS, INPUT), start(part))
    require_finite(states, "", "states")
    states.sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)
    for name, weight in part.named_parameters():
        require_finite(weight.grad, "", f"gradients of the parameter {name}")


QUICK = (declarations, numbers_are_finite, a_loop_is_all_at_once, rows_are_independent)
LAWS = QUICK

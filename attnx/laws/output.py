"""The laws of every output layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations, require_methods
from attnx.laws.gradients import require_finite_gradients, require_used
from attnx.laws.violation import require_close, require_finite, require_tensor
from attnx.nn.outputs.inputs import OutputInputs

SIZE, WIDTH, ROWS, STEPS = 19, 17, 2, 3
SIZES = {"state_size": 13, "context_size": 11, "token_size": 7}
SOURCE = torch.tensor([[4, 5, 3, 22, 7], [9, 16, 0, 0, 0]])


def built(output: Candidate) -> Any:
    """The layer, for 17 symbols of which those from 4 are in the source, too."""
    part = output.build(size=SIZE, width=WIDTH, tied=None, **SIZES)
    if hasattr(part, "match"):
        part.match([number if 4 <= number < WIDTH else 0 for number in range(23)])
    return part


def drawn(part: Any) -> tuple[Tensor, OutputInputs]:
    """Random readouts (b, t, size), and what else was seen."""
    states, contexts, tokens = (torch.randn(ROWS, STEPS, size) for size in SIZES.values())
    weights = torch.softmax(torch.randn(ROWS, STEPS, SOURCE.shape[1]), -1)
    seen = OutputInputs(states, contexts, tokens, weights, part.symbols(SOURCE, SOURCE != 0))
    return torch.randn(ROWS, STEPS, SIZE), seen


def write(part: Any, vectors: Tensor, seen: OutputInputs) -> Tensor:
    """The outputs, of the right type and shape."""
    return require_tensor(part(vectors, seen), "forward", (*vectors.shape[:-1], WIDTH))


def declarations(output: Candidate) -> None:
    """An output layer is an nn.Module with the methods forward and symbols, and declares whether it ``copies``."""
    part = built(output)
    require_declarations(output, part)
    require_methods(part, ("forward", "symbols"))


def a_step_is_all_at_once(output: Candidate) -> None:
    """A step of a row gives, alone, what all steps of all rows give."""
    part = built(output)
    vectors, seen = drawn(part)
    together = write(part, vectors, seen)
    for row in (slice(row, row + 1) for row in range(ROWS)):
        for step in range(STEPS):
            states, contexts, tokens, weights = (None if one is None else one[row, step] for one in seen[:4])
            assert states is not None and contexts is not None and tokens is not None  # noqa: PT018 - all were drawn
            alone = OutputInputs(states, contexts, tokens, weights, None if seen.symbols is None else seen.symbols[row])
            found = write(part, vectors[row, step], alone)
            require_close(found, together[row, step], "forward", f"row {row.start} is written otherwise beside others")


def numbers_are_finite(output: Candidate) -> None:
    """Outputs and gradients are finite, and every parameter has one."""
    part = built(output)
    vectors, seen = drawn(part)
    outputs = write(part, vectors.requires_grad_(), seen)
    require_finite(outputs, "forward", "outputs")
    torch.log_softmax(outputs, -1)[..., 5].sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(part, {"readouts": vectors}, "forward")
    require_used(part)


QUICK = (declarations, numbers_are_finite, a_step_is_all_at_once)
LAWS = QUICK

"""The laws of every readout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_methods
from attnx.laws.gradients import require_finite_gradients, require_gradients, require_used
from attnx.laws.violation import require, require_close, require_finite, require_tensor

SIZES = {"state_size": 13, "context_size": 11, "token_size": 7}


def random_inputs(*leading: int) -> list[Tensor]:
    """Random states, contexts and tokens."""
    return [torch.randn(*leading, size) for size in SIZES.values()]


def read_out(part: Any, inputs: list[Tensor]) -> Tensor:
    """The readout's output, its type and shape checked."""
    return require_tensor(part(*inputs), "forward", (*inputs[0].shape[:-1], part.size))


def declarations(readout: Candidate) -> None:
    """A readout is an nn.Module with a forward and a ``size``, the width of its output."""
    part = readout.build(**SIZES)
    require_methods(part, ("forward",))
    size = getattr(part, "size", None)
    require(isinstance(size, int) and size > 0, "", f"its size, the width of its output, is {size!r}")


def any_leading_axes(readout: Candidate) -> None:
    """States, contexts and tokens of one step (b, ...) or of all (b, t, ...) give vectors (..., size)."""
    part = readout.build(**SIZES)
    for leading in ((2,), (2, 3)):
        read_out(part, random_inputs(*leading))


def rows_and_steps_are_independent(readout: Candidate) -> None:
    """The output of a step of a row does not depend on other rows or steps."""
    part, inputs = readout.build(**SIZES), random_inputs(2, 3)
    together = read_out(part, inputs)
    for row in range(2):
        for step in range(3):
            alone = read_out(part, [tensor[row : row + 1, step] for tensor in inputs])
            require_close(together[row, step], alone[0], "forward", f"row {row} has another output in a batch")


def numbers_are_finite(readout: Candidate) -> None:
    """Outputs and gradients are finite, and every parameter has a gradient."""
    part, inputs = readout.build(**SIZES), [tensor.requires_grad_() for tensor in random_inputs(2, 3)]
    vectors = read_out(part, inputs)
    require_finite(vectors, "forward", "vectors")
    vectors.sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(part, dict(zip(("states", "contexts", "tokens"), inputs, strict=True)), "forward")
    require_used(part)


def gradients(readout: Candidate) -> None:
    """Gradients agree with finite differences."""
    part = readout.build(**SIZES)
    require_gradients(lambda *inputs: read_out(part, list(inputs)), random_inputs(2, 3), part, "forward")


QUICK = (declarations, any_leading_axes, numbers_are_finite, rows_and_steps_are_independent)
LAWS = (*QUICK, gradients)

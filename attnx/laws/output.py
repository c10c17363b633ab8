"""The laws of every output layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations, require_methods
from attnx.laws.gradients import require_finite_gradients, require_used
from attnx.laws.violation import require_close, require_finite, require_tensor
from attnx.nn.contracts import OutputInputs

SIZE, WIDTH, ROWS, STEPS = 19, 17, 2, 3
SIZES = {"state_size": 13, "context_size": 11, "token_size": 7}
SOURCE = torch.tensor([[4, 5, 3, 22, 7], [9, 16, 0, 0, 0]])


def build(output: Candidate) -> Any:
    """The layer for 17 symbols; those from 4 are in the source vocabulary, too."""
    part = output.build(size=SIZE, width=WIDTH, tied=None, **SIZES)
    if hasattr(part, "set_vocabulary_map"):
        part.set_vocabulary_map([index if 4 <= index < WIDTH else 0 for index in range(23)])
    return part


def random_inputs(part: Any) -> tuple[Tensor, OutputInputs]:
    """Random readouts (b, t, size), and the layer's other inputs."""
    states, contexts, tokens = (torch.randn(ROWS, STEPS, size) for size in SIZES.values())
    weights = torch.softmax(torch.randn(ROWS, STEPS, SOURCE.shape[1]), -1)
    inputs = OutputInputs(states, contexts, tokens, weights, part.symbols(SOURCE, SOURCE != 0))
    return torch.randn(ROWS, STEPS, SIZE), inputs


def write(part: Any, vectors: Tensor, inputs: OutputInputs) -> Tensor:
    """The layer's outputs, their type and shape checked."""
    return require_tensor(part(vectors, inputs), "forward", (*vectors.shape[:-1], WIDTH))


def declarations(output: Candidate) -> None:
    """An output layer is an nn.Module with the methods forward and symbols, and declares whether it ``copies``."""
    part = build(output)
    require_declarations(output, part)
    require_methods(part, ("forward", "symbols"))


def steps_and_rows_are_independent(output: Candidate) -> None:
    """The outputs of a step of a row do not depend on other rows or steps."""
    part = build(output)
    vectors, inputs = random_inputs(part)
    together = write(part, vectors, inputs)
    for row in (slice(row, row + 1) for row in range(ROWS)):
        for step in range(STEPS):
            states, contexts, tokens, weights = (None if part is None else part[row, step] for part in inputs[:4])
            assert states is not None and contexts is not None and tokens is not None  # noqa: PT018 - all are tensors
            alone = OutputInputs(
                states, contexts, tokens, weights, None if inputs.symbols is None else inputs.symbols[row]
            )
            outputs = write(part, vectors[row, step], alone)
            require_close(outputs, together[row, step], "forward", f"row {row.start} has other outputs in a batch")


def numbers_are_finite(output: Candidate) -> None:
    """Outputs and gradients are finite, and every parameter has a gradient."""
    part = build(output)
    vectors, inputs = random_inputs(part)
    outputs = write(part, vectors.requires_grad_(), inputs)
    require_finite(outputs, "forward", "outputs")
    torch.log_softmax(outputs, -1)[..., 5].sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(part, {"readouts": vectors}, "forward")
    require_used(part)


QUICK = (declarations, numbers_are_finite, steps_and_rows_are_independent)
LAWS = QUICK

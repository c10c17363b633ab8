"""The laws of every encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_methods
from attnx.laws.gradients import require_finite_gradients, require_used
from attnx.laws.violation import described, require, require_close, require_finite, require_tensor
from attnx.nn.contracts import EncoderOutput

INPUT = 5
LENGTHS = torch.tensor([7, 4, 1])
SOURCE_MASK = torch.arange(7) < LENGTHS[:, None]


def encode(part: Any, inputs: Tensor, source_mask: Tensor) -> EncoderOutput:
    """Encode, and check the types and shapes of the output."""
    encoded = part(inputs, source_mask)
    right = isinstance(encoded, tuple) and len(encoded) == 2
    require(right, "forward", f"it returned {described(encoded)} instead of an EncoderOutput (attnx.nn.contracts)")
    layers, final = encoded
    require(isinstance(layers, list) and layers, "forward", "its layers are not a list of tensors, lowest first")
    downsampling = getattr(part, "downsampling", 1)
    require_tensor(layers[-1], "forward", (len(inputs), -(-inputs.shape[1] // downsampling), part.size))
    require(isinstance(final, tuple) and final, "forward", "its final state is not a tuple with one tuple per layer")
    for state in final:
        require(isinstance(state, tuple) and state, "forward", "the final state of a layer is not a tuple of tensors")
        require_tensor(state[0], "forward", (len(inputs), part.size))
    return EncoderOutput(*encoded)


def declarations(encoder: Candidate) -> None:
    """An encoder is a module with a forward and ``size``, its states' width; ``shortens`` needs ``downsampling``."""
    part = encoder.build(input_size=INPUT)
    require_methods(part, ("forward",))
    size = getattr(part, "size", None)
    require(isinstance(size, int) and size > 0, "", f"its size, the width of its states, is {size!r}")
    downsampling = getattr(part, "downsampling", 1)
    is_declared = encoder.property_value("shortens", False) or downsampling == 1
    require(is_declared, "shortens", f"its downsampling is {downsampling}, and it does not declare shortens = True")


def shapes(encoder: Candidate) -> None:
    """An encoder returns an EncoderOutput: the states and the final state of every layer, lowest first."""
    encode(encoder.build(input_size=INPUT), torch.randn(3, 7, INPUT), SOURCE_MASK)


def rows_are_independent(encoder: Candidate) -> None:
    """The encoding of a row does not depend on other rows, nor on padding with finite numbers."""
    part, inputs = encoder.build(input_size=INPUT), torch.randn(3, 7, INPUT)
    together = encode(part, inputs, SOURCE_MASK)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encode(part, inputs[row : row + 1, :length], SOURCE_MASK[row : row + 1, :length])
        states = alone.layers[-1][0]
        among = together.layers[-1][row, : len(states)]
        require_close(among, states, "forward", f"row {row} has other states in a batch")
        for state, expected in zip(together.final, alone.final, strict=True):
            require_close(
                state[0][row],
                expected[0][0],
                "forward",
                f"row {row} has another final state in a batch",
            )


def numbers_are_finite(encoder: Candidate) -> None:
    """States and gradients are finite, also those of an empty row."""
    part, inputs = encoder.build(input_size=INPUT), torch.randn(3, 7, INPUT, requires_grad=True)
    encoded = encode(part, inputs, SOURCE_MASK & (LENGTHS > 1)[:, None])
    require_finite(encoded.layers[-1], "forward", "states")
    (encoded.layers[-1].sum() + encoded.final[-1][0].sum()).backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(part, {"inputs": inputs}, "forward")


def every_parameter_is_used(encoder: Candidate) -> None:
    """Every parameter has a gradient."""
    part = encoder.build(input_size=INPUT)
    encode(part, torch.randn(3, 7, INPUT), SOURCE_MASK).layers[-1].sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)


QUICK = (declarations, shapes, numbers_are_finite, rows_are_independent)
LAWS = (*QUICK, every_parameter_is_used)

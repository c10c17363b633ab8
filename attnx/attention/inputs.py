"""The tensors of an attention call: errors in a line before torch stumbles or broadcasts, padding and steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from attnx.attention.types import Memory
from attnx.errors import UserError
from attnx.ops import is_all_true_on_cpu, is_tracing

Kind = Literal["float", "int", "bool"]


def check_tensor(name: str, value: object, kind: Kind, shape: Sequence[int | str], broadcasts: bool = False) -> None:
    """Check that a value is a tensor of numbers of a kind, and that its shape fits.

    Args:
        name: the function and the argument, in the message.
        value: what should be a tensor.
        kind: of its numbers.
        shape: the size of each axis, or the letter of one that may have any size.
        broadcasts: whether it need only be broadcastable to the shape.

    Raises:
        UserError: it is something else.
    """
    if isinstance(value, Tensor):
        actual_kind = "float" if value.is_floating_point() else "bool" if value.dtype == torch.bool else "int"
        if kind == actual_kind and _fits(value.shape, shape, broadcasts):
            return
        actual = f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    else:
        actual = f"a {type(value).__name__}"
    raise UserError(f"{name}: {actual}; expected ({', '.join(map(str, shape))}) {kind}")


def _fits(actual: Sequence[int], shape: Sequence[int | str], broadcasts: bool) -> bool:
    if len(actual) > len(shape) or (len(actual) < len(shape) and not broadcasts):
        return False
    sizes = zip(reversed(actual), reversed(shape), strict=False)
    return all(isinstance(expected, str) or size == expected or (broadcasts and size == 1) for size, expected in sizes)


def check_states(
    states: Tensor, memory_mask: Tensor | None, values: Tensor | None, memory_size: int, values_size: int | None = None
) -> None:
    """Check that a memory can be made of states (b, m, memory_size), a mask (b, m) and values (b, m, v), if given.

    ``values_size`` is the width that the values, or the states in their place, must have; None if any will do.

    Raises:
        UserError: it cannot.
    """
    if is_tracing():  # where shapes are recorded and not known
        return
    check_tensor("make_memory: states", states, "float", ("b", "m", memory_size))
    rows, positions = states.shape[:2]
    if memory_mask is not None:
        check_tensor("make_memory: memory_mask", memory_mask, "bool", (rows, positions))
    if values is not None or values_size is not None:
        used = states if values is None else values
        check_tensor(
            "make_memory: values", used, "float", (rows, positions, "v" if values_size is None else values_size)
        )


def zero_padding(states: Tensor, memory_mask: Tensor | None, values: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """States and values (the states, if left out) with zeros at padding, and the mask.

    Zeroed, not only masked: a weight of 0 times an inf or NaN in the padding would still be NaN.
    """
    if memory_mask is None:
        memory_mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return states, memory_mask, states if values is None else values
    if is_all_true_on_cpu(memory_mask):
        return states, memory_mask, states if values is None else values
    padding = ~memory_mask[..., None]
    states = states.masked_fill(padding, 0.0)
    return states, memory_mask, states if values is None else values.masked_fill(padding, 0.0)


def query_steps(queries: Tensor, steps: Tensor | None) -> Tensor:
    """The absolute step of each of the queries (b, q, width), (q,) or (b, q): 0, 1, ... if left out.

    Steps that broadcast, one for all queries as in a loop, are expanded.
    """
    count = queries.shape[1]
    if steps is None:
        return torch.arange(count, device=queries.device)
    return steps.expand(*steps.shape[:-1], count)


def query_mask(memory: Memory, queries: int) -> Tensor:
    """The positions that are there when each of so many queries asks: (b, 1, m) bool, or (b, q, m) if they differ."""
    mask = memory.mask if memory.mask.dim() == 3 else memory.mask[:, None]
    if not memory.is_causal:
        return mask
    rows, _, positions = mask.shape
    last = torch.arange(positions - queries, positions, device=mask.device)
    is_past = torch.arange(positions, device=mask.device) <= last[:, None]  # (q, m)
    return mask & is_past if memory.has_padding else is_past.expand(rows, queries, positions)


def check_query(
    queries: Tensor, memory: Memory, allowed_mask: Tensor | None, steps: Tensor | None, query_size: int
) -> None:
    """Raise a UserError if queries (b, q, query_size), a mask (b, q, m) or steps do not fit a memory of b or 1 rows."""
    if is_tracing():  # where shapes are recorded and not known
        return
    if not isinstance(memory, Memory):
        raise UserError(f"the memory is a {type(memory).__name__}; make one of states by attention.make_memory(states)")
    check_tensor("attention: queries", queries, "float", ("b", "q", query_size))
    rows, positions = memory.mask.shape[0], memory.mask.shape[-1]
    if rows != queries.shape[0] and 1 not in (rows, queries.shape[0]):
        raise UserError(
            f"attention: the queries have {queries.shape[0]} rows, the memory {rows}; give each row its own"
        )
    shape = max(rows, queries.shape[0]), queries.shape[1], positions
    if allowed_mask is not None:
        check_tensor("attention: allowed_mask", allowed_mask, "bool", shape, broadcasts=True)
    if steps is not None:
        check_tensor("attention: steps", steps, "int", shape[:2], broadcasts=True)

"""The tensors of an attention call: errors in a line before torch stumbles or broadcasts, padding and steps."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention.types import Memory
from attnx.errors import UserError
from attnx.ops import is_all_true_on_cpu, is_tracing


def check_states(
    states: Tensor, memory_mask: Tensor | None, values: Tensor | None, memory_size: int, values_size: int | None = None
) -> None:
    """Check that a memory can be made of states (b, m, memory_size), a mask (b, m) and values (b, m, v), if given.

    ``values_size`` is the width that the values must have; None if any will do.

    Raises:
        UserError: it cannot.
    """
    if is_tracing():  # where shapes are recorded and not known
        return
    _check_batch(states, "make_memory", "states", "m", memory_size)
    _check_tensors("make_memory", memory_mask=memory_mask, values=values)
    if memory_mask is not None and (memory_mask.dtype != torch.bool or memory_mask.shape != states.shape[:2]):
        raise UserError(
            f"make_memory: memory_mask is {_describe(memory_mask)}; expected (b, m) bool, here "
            f"{tuple(states.shape[:2])}, False at padding"
        )
    if values is not None and (
        values.dim() != 3 or values.shape[:2] != states.shape[:2] or not values.is_floating_point()
    ):
        raise UserError(
            f"make_memory: values are {_describe(values)}; expected (b, m, v) floating-point numbers, the rows and "
            f"positions of the states {tuple(states.shape[:2])}"
        )
    if values_size is not None:
        check_values_width(states, values, values_size)


def check_values_width(states: Tensor, values: Tensor | None, values_size: int) -> None:
    """Raise a UserError if the values, or else the states, have another width than a module was built for."""
    width = (states if values is None else values).shape[-1]
    if width != values_size and not is_tracing():
        raise UserError(
            f"make_memory: the values are {width} wide; this attention was built for {values_size}, its values_size"
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
    _check_batch(queries, "attention", "queries", "q", query_size)
    _check_tensors("attention", allowed_mask=allowed_mask, steps=steps)
    rows, positions = memory.mask.shape[0], memory.mask.shape[-1]
    if rows != queries.shape[0] and 1 not in (rows, queries.shape[0]):
        raise UserError(
            f"attention: the queries have {queries.shape[0]} rows, the memory {rows}; give each row its own"
        )
    shape = max(rows, queries.shape[0]), queries.shape[1], positions
    if allowed_mask is not None and (allowed_mask.dtype != torch.bool or not _broadcasts(allowed_mask, shape)):
        raise UserError(
            f"attention: allowed_mask is {_describe(allowed_mask)}; expected (b, q, m) bool, here {shape}, True where "
            "may be read"
        )
    if steps is not None and (steps.is_floating_point() or not _broadcasts(steps, shape[:2])):
        raise UserError(
            f"attention: steps are {_describe(steps)}; expected (q,) or (b, q) int64, here {shape[1:2]} or {shape[:2]}"
        )


def _check_tensors(function: str, **arguments: Tensor | None) -> None:
    """Refuse an argument that is neither a tensor nor None."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor | None):
            raise UserError(f"{function}: {name} is a {type(value).__name__}; expected a tensor")


def _broadcasts(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    sizes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    return tensor.dim() <= len(shape) and all(size in (1, full_size) for size, full_size in sizes)


def _check_batch(tensor: Tensor, function: str, what: str, middle: str, width: int) -> None:
    if not isinstance(tensor, Tensor):
        raise UserError(
            f"{function}: the {what} are a {type(tensor).__name__}; expected a tensor (b, {middle}, {width})"
        )
    if tensor.dim() != 3:
        hint = f"; for one row, write {what}[None]" if tensor.dim() == 2 else ""
        raise UserError(f"{function}: the {what} are {_describe(tensor)}; expected (b, {middle}, {width}){hint}")
    if tensor.shape[-1] != width:
        raise UserError(
            f"{function}: the {what} are {tensor.shape[-1]} wide, in {tuple(tensor.shape)}; this attention was built "
            f"for {width}, its {'memory' if what == 'states' else 'query'}_size"
        )
    if not tensor.is_floating_point():
        raise UserError(f"{function}: the {what} are {tensor.dtype}; expected floating-point numbers")


def _describe(tensor: Tensor) -> str:
    kind = "of numbers" if tensor.is_floating_point() else str(tensor.dtype).removeprefix("torch.")
    return f"{tuple(tensor.shape)} {kind}"

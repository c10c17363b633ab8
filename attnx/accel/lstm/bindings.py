"""The steps of an LSTM over packed rows, in C; products only where C is faster than torch."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnx.accel import c_build
from attnx.ops import is_tracing

MAX_UNITS_FOR_ONE_THREAD = 2**14
"""Units of a step up to which one thread is faster than several."""
LANES = 16
"""Floats in a vector where products are in C."""
MIN_ROWS_TO_PACK = 16
"""Rows of all steps from which on packing weights for products in C pays."""
MAX_PARTS = 2
"""Parts side by side that a step multiplies at most."""

POINTER, LONG = ctypes.c_void_p, ctypes.c_long
library = c_build.lazy_functions(
    c_build.LSTM,
    takes={
        "lstm_step": [POINTER] * 6,
        "lstm_step_gradients": [POINTER] * 7,
        "lstm_linear": [POINTER, LONG, POINTER, POINTER],
        "lstm_pack_weights": [LONG, LONG, POINTER, LONG, POINTER],
        "lstm_segment_sum": [LONG, LONG, POINTER, POINTER, POINTER, LONG],
    },
    returns={"lstm_has_fast_products": LONG},
)
"""Load the C functions; None without a compiler."""


class GateInputs(NamedTuple):
    """The inputs' share of the gates of all n packed steps: a matrix (n, 4d), or rows ``ids`` of a table, or both."""

    gates: Tensor | None
    table: Tensor | None
    ids: Tensor | None


class PackedWeights(NamedTuple):
    """Weights (u, k) that every step multiplies with its parts side by side; in tiles where products are in C."""

    plain: Tensor
    tiles: Tensor | None


class StepOperands(NamedTuple):
    """What the C functions read of a step besides its states."""

    table: Tensor | None = None  # (.., 4d) whose rows ``ids`` are added to the gates; or None
    ids: Tensor | None = None  # (b,) int64
    adds_gates: bool = False  # whether gates are added
    keeps_activations: bool = False  # whether gates become their activations, for the gradients
    tiles: Tensor | None = None  # packed weights; or None
    parts: Sequence[Tensor] = ()  # what they are multiplied with, at most two


class Direction(NamedTuple):
    """One direction; ``outputs`` are those of each step, or their gradients, (b, d)."""

    sizes: tuple[int, ...]
    order: Tensor
    outputs: tuple[Tensor, ...]
    is_backward: bool

    def run(
        self,
        inputs: GateInputs,
        extra_inputs: Tensor | None,
        start: tuple[Tensor, Tensor] | None,
        weight_hh: Tensor,
        last: Tensor,
        needs_grad: bool,
    ) -> tuple[Tensor, ...]:
        """Write the outputs, and the ``last`` h and c (2, b, d).

        Args:
            inputs: their share of the gates; a matrix is written over.
            extra_inputs: (n, k) inputs that are no table's rows, kept for the gradients.
            start: h and c, each (b, d).
            weight_hh: (4d, d).
            last: where to write.
            needs_grad: whether gradients are needed.

        Returns:
            with gradients: the gates' activations (n, 4d); [extra inputs; previous h] (n, k + d), side by side so that
            both weights' gradients are one product; the previous c (n, d). Undefined without gradients.
        """
        rows, units = sum(self.sizes), weight_hh.shape[1]
        joined, cells, step_states, step_cells = self._allocate_states(extra_inputs, weight_hh, needs_grad)
        if start is not None:
            step_states[0][:], step_cells[0][:] = (tensor[self.order] for tensor in start)
        weights = pack_weights(weight_hh, rows)
        has_gates, in_c = inputs.gates is not None, weights.tiles is not None
        # Without gradients every step overwrites the gates of the step before, or has none.
        buffer_rows = rows if needs_grad else 0 if in_c else self.sizes[0]
        gates = weight_hh.new_empty(buffer_rows, 4 * units) if inputs.gates is None else inputs.gates
        step_gates = self._split(gates) if has_gates or needs_grad else [gates[:size] for size in self.sizes]
        ids = [None] * len(self.sizes) if inputs.ids is None else self._split(inputs.ids)
        steps = self._in_time_order(step_gates, step_states, step_cells, ids)
        last_pointers, run_step = _state_pointers(*last), library().lstm_step
        for index, (step, following) in enumerate(itertools.zip_longest(steps, steps[1:])):
            gate, state, cell, step_ids, output = step
            parts = [state] if index or start is not None else []  # else the state is zero
            if parts and not in_c:
                gate.addmm_(state, weight_hh.t(), beta=int(has_gates))
            adds_gates = has_gates or (bool(parts) and not in_c)
            operands = StepOperands(
                inputs.table, step_ids, adds_gates, needs_grad, weights.tiles, parts if in_c else ()
            )
            continuing = min(len(cell), len(following[2])) if following else 0
            strided = following[1] if following else state, output, gate
            struct = _step_struct(cell.shape, continuing, strided, self.order, operands)
            next_pointers = _state_pointers(*following[1:3]) if following else last_pointers
            run_step(struct, gate.data_ptr(), cell.data_ptr(), next_pointers, last_pointers, output.data_ptr())
        return gates, joined, cells

    def _allocate_states(
        self, extra_inputs: Tensor | None, weight_hh: Tensor, needs_grad: bool
    ) -> tuple[Tensor, Tensor, Sequence[Tensor], Sequence[Tensor]]:
        """[extra inputs; previous h] and previous c, whole and by step; two buffers of each without gradients."""
        rows, units = sum(self.sizes), weight_hh.shape[1]
        if not needs_grad:  # rows that begin later begin with zeros
            joined, cells = weight_hh.new_zeros(2, 2, self.sizes[0], units)
            return joined, cells, self._double_buffered(joined), self._double_buffered(cells)
        width = 0 if extra_inputs is None else extra_inputs.shape[1]
        joined, cells = weight_hh.new_zeros(rows, width + units), weight_hh.new_zeros(rows, units)
        if extra_inputs is not None:
            joined[:, :width] = extra_inputs
        return joined, cells, self._split(joined[:, width:]), self._split(cells)

    def backward(
        self,
        saved: Sequence[Tensor],
        weight_hh: Tensor,
        grad_last: tuple[Tensor, Tensor],
        has_start: bool,
    ) -> tuple[Tensor, tuple[Tensor | None, Tensor | None]]:
        """The gradients of the gates before activation, from those of the outputs and of the ``last`` h and c (b, d).

        Returns:
            these, (n, 4d), and those of the ``start``, if there was one.
        """
        gates, _, cells = saved
        grad_gates = torch.empty_like(gates)
        grad_h, grad_c = (tensor[self.order] for tensor in grad_last)
        steps = self._in_time_order(*map(self._split, (gates, cells, grad_gates)))
        in_c, pointers = library(), (grad_h.data_ptr(), grad_c.data_ptr())
        for index, (gate, cell, grad_gate, grad_output) in zip(range(len(steps))[::-1], steps[::-1], strict=True):
            struct = _step_struct(cell.shape, 0, (cell, grad_output, grad_gate), self.order)
            operands = gate.data_ptr(), cell.data_ptr(), *pointers, grad_output.data_ptr(), grad_gate.data_ptr()
            in_c.lstm_step_gradients(struct, *operands)
            if index or has_start:  # else nothing needs those of the previous state
                torch.mm(grad_gate, weight_hh, out=grad_h[: len(grad_gate)])
        if not has_start:
            return grad_gates, (None, None)
        grad_start = torch.empty_like(grad_h), torch.empty_like(grad_c)
        grad_start[0][self.order], grad_start[1][self.order] = grad_h, grad_c
        return grad_gates, grad_start

    def _split(self, packed: Tensor) -> Sequence[Tensor]:
        """The rows of each step."""
        return torch.split(packed, list(self.sizes))

    def _double_buffered(self, two: Tensor) -> Sequence[Tensor]:
        """For each step a part of one of two buffers, in turn, so that each reads what the step before wrote."""
        last = len(self.sizes) - 1
        return [two[(last - step if self.is_backward else step) % 2, :size] for step, size in enumerate(self.sizes)]

    def _in_time_order(self, *parts: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The parts of each step, and its outputs, in the order in which steps run."""
        steps = [*zip(*parts, self.outputs[: len(self.sizes)], strict=True)]
        return steps[::-1] if self.is_backward else steps


def can_run_lstm(inputs: Tensor) -> bool:
    """Whether C can be used: on a CPU, in single precision, without autocast or tracing, with a C compiler."""
    is_plain = type(inputs) in (Tensor, nn.Parameter) and inputs.dtype == torch.float32 and inputs.device.type == "cpu"
    return is_plain and not (torch.is_autocast_enabled("cpu") or is_tracing()) and library() is not None


def pack_weights(weights: Tensor, rows: int) -> PackedWeights:
    """Pack weights (u, k), for a step (4d, k), that so many rows in all are multiplied with."""
    if rows < MIN_ROWS_TO_PACK or not can_run_lstm(weights) or not library().lstm_has_fast_products():
        return PackedWeights(weights, None)
    weights = weights if weights.stride(1) == 1 else weights.contiguous()
    count, width = weights.shape
    tiles = weights.new_empty(-(-count // (4 * LANES)) * LANES * 4 * width)
    library().lstm_pack_weights(count, width, weights.data_ptr(), weights.stride(0), tiles.data_ptr())
    return PackedWeights(weights, tiles)


def lstm_step(
    cells: Tensor,
    added: Tensor | None,
    looked_up: tuple[Tensor, Tensor] | None = None,
    weights: PackedWeights | None = None,
    parts: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor]:
    """One step without gradients. The gates are the sum of what is added, looked up and multiplied.

    Args:
        cells: (b, d).
        added: (b, 4d), None for nothing.
        looked_up: a table (n, 4d) and the row of it (b,) int64 that each row adds.
        weights: multiplied with the parts.
        parts: at most two, side by side as wide as the weights.

    Returns:
        the next h and c.
    """
    is_in_c = can_run_lstm(cells)
    if parts and weights is not None and (weights.tiles is None or not is_in_c):
        widths = [part.shape[1] for part in parts]
        for part, weight in zip(parts, torch.split(weights.plain, widths, 1), strict=True):
            added = part @ weight.t() if added is None else torch.addmm(added, part, weight.t())
        parts = ()
    if not is_in_c:
        if looked_up is not None:
            rows = looked_up[0].index_select(0, looked_up[1])
            added = rows if added is None else added + rows
        assert added is not None, "gates have a summand"
        input_gate, forget_gate, candidate, output_gate = added.chunk(4, -1)
        next_cells = (forget_gate.sigmoid() * cells).addcmul_(input_gate.sigmoid(), candidate.tanh())
        return output_gate.sigmoid() * next_cells.tanh(), next_cells
    cells, parts = cells.contiguous(), [part if part.stride(1) == 1 else part.contiguous() for part in parts]
    added = added if added is None or added.stride(1) == 1 else added.contiguous()
    table, ids = (None, None) if looked_up is None else (looked_up[0].contiguous(), looked_up[1].contiguous())
    states, next_cells, order = torch.empty_like(cells), torch.empty_like(cells), torch.arange(len(cells))
    strided = states, states, cells if added is None else added
    tiles = weights.tiles if weights is not None and parts else None
    assert not parts or tiles is not None, "products are in C where weights are packed"
    operands = StepOperands(table, ids, added is not None, tiles=tiles, parts=parts)
    struct = _step_struct(cells.shape, 0, strided, order, operands)
    pointers = _state_pointers(states, next_cells)
    gates = None if added is None else added.data_ptr()
    library().lstm_step(struct, gates, cells.data_ptr(), pointers, pointers, states.data_ptr())
    return states, next_cells


def packed_linear(inputs: Tensor, weights: PackedWeights, bias: Tensor | None, out: Tensor) -> None:
    """Write inputs (n, k) times packed weights (u, k), plus a bias (u), to (n, u), whose rows may be strided."""
    assert weights.tiles is not None, "products are in C where weights are packed"
    inputs = inputs if inputs.stride(1) == 1 else inputs.contiguous()
    bias = None if bias is None else bias.contiguous()
    (rows, count), no_order = out.shape, torch.empty(0, dtype=torch.int64)
    shape = rows, -(-count // 4)
    struct = _step_struct(shape, 0, (out, out, out), no_order, StepOperands(tiles=weights.tiles, parts=[inputs]))
    library().lstm_linear(struct, count, None if bias is None else bias.data_ptr(), out.data_ptr())


def segment_sum(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    """Rows (n, w) and the segment of each, ids (n,) -> the sums (count, w) of each segment's rows."""
    sums = rows.new_zeros(count, rows.shape[1])
    threads = torch.get_num_threads() if rows.numel() > MAX_UNITS_FOR_ONE_THREAD else 1
    library().lstm_segment_sum(*rows.shape, ids.data_ptr(), rows.data_ptr(), sums.data_ptr(), threads)
    return sums


def _step_struct(
    shape: Sequence[int],
    continuing: int,
    strided: tuple[Tensor, Tensor, Tensor],
    order: Tensor,
    operands: StepOperands = StepOperands(),  # noqa: B008 - immutable
) -> Any:
    """Fill the struct ``step`` of lstm.c.

    It holds the sizes, how many rows continue, the row strides of the next states, the outputs and the gates, the rows'
    order in the batch, the number of threads, the table lookup, and the packed weights with what they multiply.
    """
    rows, units = shape
    threads = torch.get_num_threads() if rows * units > MAX_UNITS_FOR_ONE_THREAD else 1
    table, ids, adds_gates, keeps_activations, tiles, parts = operands
    part_fields = [field for part in parts for field in (part.data_ptr(), part.stride(0), part.shape[1])]
    fields = (
        *(rows, units, continuing, *(tensor.stride(0) for tensor in strided), order.data_ptr(), threads),
        0 if table is None else table.data_ptr(),
        0 if ids is None or table is None else ids.data_ptr(),
        *(adds_gates, keeps_activations, 0 if tiles is None else tiles.data_ptr()),
        *(*part_fields, *[0] * (3 * (MAX_PARTS - len(parts)))),
    )
    return (ctypes.c_long * len(fields))(*fields)


def _state_pointers(states: Tensor, cells: Tensor) -> Any:
    return (ctypes.c_void_p * 2)(states.data_ptr(), cells.data_ptr())

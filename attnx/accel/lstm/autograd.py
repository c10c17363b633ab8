"""An LSTM over rows of different lengths, its cell in C: the numbers and the gradients of ``torch.nn.LSTM``."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from attnx.accel.lstm.bindings import Direction, GateInputs, can_run_lstm, segment_sum

MIN_LOOKUPS_PER_ROW = 2
"""Average number of lookups of a table's row from which on projecting the table once is faster."""
DirectionWeights = tuple[Tensor, Tensor, Tensor]
"""The weights of one direction: weight_ih (4d, e), weight_hh (4d, d) and the sum of both biases (4d)."""


class Lookup(NamedTuple):
    """Rows of a table as inputs: ``linear(table[ids]) == linear(table)[ids]``, so the table is projected once."""

    table: Tensor  # (n, e)
    ids: Tensor  # (b, t) int64
    padding_idx: int | None = None  # the row of the table that has no gradient; or None
    version: int = 0  # of the rows that were looked up; another one says that they were changed in place


def prefers_lookup(lookup: Lookup) -> bool:
    """Whether projecting the table is faster than projecting each of the rows that are looked up."""
    return can_run_lstm(lookup.table) and MIN_LOOKUPS_PER_ROW * len(lookup.table) <= lookup.ids.numel()


def lstm(
    lookup: Lookup | None,
    inputs: Tensor | None,
    lengths: Tensor | None,
    start: tuple[Tensor, Tensor] | None,
    directions: Sequence[DirectionWeights],
    rows: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run over whole sequences, one step of all rows at a time; padding costs nothing.

    The inputs' share of the gates is one product for all steps, and so are the gradients of each direction's weights.
    With a lookup these are products with the table's rows, and with sums of the gradients of their steps. Where the
    rows that were looked up still exist as gradients flow back, they get the gradient, and the table gets it by them.

    Formula: ``c_t = s(f) c_{t-1} + s(i) tanh(g), h_t = s(o) tanh(c_t)``; ``[i; f; g; o] = W x_t + U h_{t-1} + b``
    Source: Hochreiter and Schmidhuber 1997; the gate f: Gers et al. 2000, https://doi.org/10.1162/089976600300015015

    Args:
        lookup: the first columns of the inputs, as rows of a table; or None.
        inputs: (b, t, e), all columns or those after the lookup's; or None.
        lengths: (b,) on the CPU, each at least 1; left out, every row is full.
        start: h and c, each (b, d), where there is one direction; zeros if left out.
        directions: the weights of the forward and, if there is one, of the backward direction.
        rows: (b, t, e), what was looked up; left out, the table alone gets gradients.

    Returns:
        the outputs (b, t, directions * d), zero beyond a row's length; h and c at each row's end, each
        (directions, b, d).

    Raises:
        IndexError: an id is not in the table.
    """
    table, ids, padding_idx, _ = lookup or (None, None, None, 0)
    if table is not None and ids is not None and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
        raise IndexError(f"ids from {int(ids.min())} to {int(ids.max())} in a table of {len(table)} rows")
    batch, length = next(part.shape[:2] for part in (ids, inputs) if part is not None)
    full = torch.full((batch,), length) if lengths is None else lengths
    packed_ids, packed_inputs = (
        None if part is None else pack_padded_sequence(part, full, batch_first=True, enforce_sorted=lengths is None)
        for part in (ids, inputs)
    )
    packed = next(part for part in (packed_ids, packed_inputs) if part is not None)
    steps = _PackedBatch(
        sizes=tuple(packed.batch_sizes.tolist()),
        length=length,
        order=torch.arange(batch) if packed.sorted_indices is None else packed.sorted_indices,
        ids=None if packed_ids is None else packed_ids.data,
        has_grad=torch.is_grad_enabled(),
        padding_idx=padding_idx,
        rows=(lambda: None) if rows is None else weakref.ref(rows),
    )
    if table is not None and rows is not None and not rows.requires_grad:
        table = table.detach()
    h, c = start or (None, None)
    inputs = None if packed_inputs is None else packed_inputs.data
    weights = itertools.chain.from_iterable(directions)
    outputs, h, c = _PackedRecurrence.apply(steps, table, rows, inputs, h, c, *weights)  # type: ignore[no-untyped-call]
    return outputs, (h, c)


class _PackedBatch(NamedTuple):
    """Packed steps."""

    sizes: tuple[int, ...]  # how many rows each step has
    length: int  # of the padded batch
    order: Tensor  # the rows' indices in the batch
    ids: Tensor | None  # (n,) what is looked up; or None
    has_grad: bool  # whether gradients are recorded, which within ``forward`` of a function they never are
    padding_idx: int | None  # as of the lookup
    rows: Callable[[], Tensor | None]  # gives what was looked up, while anyone holds it


class _PackedRecurrence(torch.autograd.Function):
    """Each direction over packed steps, whose inputs are rows of a table, or ``inputs``, or both."""

    @staticmethod
    def forward(
        ctx: Any,
        packed: _PackedBatch,
        table: Tensor | None,
        looked_up: Tensor | None,
        inputs: Tensor | None,
        h: Tensor | None,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        sizes, length, order, ids, has_grad, padding_idx, held_rows = packed
        rows, units, directions = sizes[0], weights[1].shape[1], len(weights) // 3
        has_padding = sizes[-1] < rows or len(sizes) < length
        outputs = (weights[0].new_zeros if has_padding else weights[0].new_empty)(rows, length, directions, units)
        last = weights[0].new_empty(2, directions, rows, units)
        start = None if h is None or c is None else (h, c)
        needs_grad = has_grad and any(ctx.needs_input_grad)
        saved: list[Tensor] = []
        for index in range(directions):
            weight_ih, weight_hh, bias = weights[3 * index : 3 * index + 3]
            direction = Direction(sizes, order, outputs[:, :, index].unbind(1), index == 1)
            table_weight, input_weight = _split_weight(weight_ih, table)
            table_gates = None if table is None else F.linear(table, table_weight, bias)
            gates = None if inputs is None else F.linear(inputs, input_weight, bias if table is None else None)
            gate_inputs = GateInputs(gates, table_gates, ids)
            extra_inputs = inputs if needs_grad else None
            saved += direction.run(gate_inputs, extra_inputs, start, weight_hh, last[:, index], needs_grad)
        if needs_grad:
            ctx.save_for_backward(table, ids, order, *weights, *saved)
            ctx.sizes, ctx.has_start, ctx.padding_idx, ctx.held_rows = sizes, start is not None, padding_idx, held_rows
        return outputs.flatten(2), last[0], last[1]

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, grad_h: Tensor, grad_c: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("an LSTM in C has no gradients of gradients; use accel=off, which runs torch's LSTM")
        table, ids, order, *saved = ctx.saved_tensors
        directions = len(saved) // 6
        grad_outputs = grad_outputs if grad_outputs.stride(2) == 1 else grad_outputs.contiguous()
        split = grad_outputs.view(*grad_outputs.shape[:2], directions, -1)
        grad_lookup: Tensor | None = None
        grad_inputs: Tensor | None = None
        is_held = ctx.needs_input_grad[2] and ctx.held_rows() is not None
        grad_start: tuple[Tensor | None, Tensor | None] = (None, None)
        grad_weights: list[Tensor] = []
        for index in range(directions):
            weight_ih, weight_hh, _ = saved[3 * index : 3 * index + 3]
            activations = saved[3 * (directions + index) :][:3]
            direction = Direction(ctx.sizes, order, split[:, :, index].unbind(1), index == 1)
            grad_last = grad_h[index], grad_c[index]
            grad_gates, grad_start = direction.backward(activations, weight_hh, grad_last, ctx.has_start)
            table_weight, input_weight = _split_weight(weight_ih, table)
            grad_input_weight, grad_hh = (grad_gates.t() @ activations[1]).tensor_split([input_weight.shape[1]], 1)
            # The sum over the steps that look up a row of the table stands for all of them.
            summed = grad_gates if table is None else segment_sum(grad_gates, ids, len(table))
            if is_held or ctx.needs_input_grad[1]:
                grad_lookup = _add_product(grad_lookup, grad_gates if is_held else summed, table_weight)
            if ctx.needs_input_grad[3]:
                grad_inputs = _add_product(grad_inputs, grad_gates, input_weight)
            grad_table_weight = [] if table is None else [summed.t() @ table]
            grad_weight_ih = torch.cat([*grad_table_weight, grad_input_weight], 1)
            grad_weights += [grad_weight_ih, grad_hh, summed.sum(0)]
        grad_table, grad_rows = grad_lookup, None
        if is_held and grad_lookup is not None:  # packed (n, e) -> (b, t, e), zero beyond a row's length
            grad_table, grad_rows = None, grad_lookup.new_zeros(*grad_outputs.shape[:2], grad_lookup.shape[1])
            for step, part in enumerate(torch.split(grad_lookup, list(ctx.sizes))):
                grad_rows[order[: len(part)], step] = part
        if grad_table is not None and ctx.padding_idx is not None:
            grad_table[ctx.padding_idx] = 0
        return None, grad_table, grad_rows, grad_inputs, *grad_start, *grad_weights


def _split_weight(weight_ih: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor]:
    """The columns of the table's rows, and those of the other inputs."""
    table_weight, input_weight = weight_ih.tensor_split([0 if table is None else table.shape[1]], 1)
    return table_weight, input_weight


def _add_product(total: Tensor | None, first: Tensor, second: Tensor) -> Tensor:
    """The product of two matrices, added to a total if there is one."""
    return first @ second if total is None else total.addmm_(first, second)

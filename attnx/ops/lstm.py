"""An LSTM over rows of different lengths, its cell in C: the numbers and the gradients of ``torch.nn.LSTM``."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from attnx import compiled
from attnx.ops.followed import followed
from attnx.ops.lookup import Lookup

SOURCE = Path(__file__).with_suffix(".c")
ALONE = 2**14
"""Units of a step up to which one thread is faster than several."""
OFTEN = 2
"""How many times a table's rows must be looked up on average for it to pay that each is mapped once."""
Weights = tuple[Tensor, Tensor, Tensor]
"""Of one direction: (4d, e) of the input, (4d, d) of the state, and what is added (4d)."""


def serves(inputs: Tensor) -> bool:
    """Whether :func:`run` can be used: on a CPU, in single precision, with a C compiler.

    What traces, compiles or vectorises a model follows torch's operations and nothing else.
    """
    plain = type(inputs) in (Tensor, nn.Parameter) and inputs.dtype == torch.float32 and inputs.device.type == "cpu"
    return plain and not (torch.is_autocast_enabled("cpu") or followed()) and _library() is not None


def looks_up(table: Tensor, ids: Tensor) -> bool:
    """Whether :func:`run` had better be given a lookup than the rows that are found."""
    return serves(table) and OFTEN * len(table) <= ids.numel()


def run(
    inputs: Tensor | Lookup, lengths: Tensor | None, start: tuple[Tensor, Tensor] | None, directions: Sequence[Weights]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run over whole sequences, a step of all rows that have it at a time; padding costs nothing.

    What comes of the inputs is one product for all steps, and so are the gradients of each direction's weights; of a
    lookup, products with the table's rows alone, and of those only sums of the steps' gradients are needed.

    Formula: ``c_t = s(f) c_{t-1} + s(i) tanh(g), h_t = s(o) tanh(c_t)``; ``[i; f; g; o] = W x_t + U h_{t-1} + b``
    Source: Hochreiter and Schmidhuber 1997; the gate f: Gers et al. 2000, https://doi.org/10.1162/089976600300015015

    Args:
        inputs: (b, t, e), or a lookup of as much.
        lengths: (b,) on the CPU, each at least 1; left out, every row is full.
        start: h and c, each (b, d), where there is one direction; zeros if left out.
        directions: the weights of the first and, where there is a second, of the one that begins at the end.

    Returns:
        the outputs (b, t, directions * d), zero beyond a row's length; h and c where each row ends, each
        (directions, b, d).
    """
    table: Tensor | None = None
    ids: Tensor | None = None
    given: Tensor | None
    if isinstance(inputs, Lookup):
        table, ids = inputs.table, inputs.ids
        given = torch.cat(inputs.beside, dim=-1) if inputs.beside else None
        rows, length = ids.shape
    else:
        given = inputs
        rows, length = inputs.shape[:2]
    full = torch.full((rows,), length) if lengths is None else lengths
    parts = [
        None if part is None else pack_padded_sequence(part, full, batch_first=True, enforce_sorted=lengths is None)
        for part in (ids, given)
    ]
    packed = next(part for part in parts if part is not None)
    order = torch.arange(rows) if packed.sorted_indices is None else packed.sorted_indices
    shape = _Shape(tuple(packed.batch_sizes.tolist()), length, order)
    of_ids, of_given = (None if part is None else part.data for part in parts)
    h, c = start or (None, None)
    weights = itertools.chain.from_iterable(directions)
    outputs, h, c = _Run.apply(shape, of_ids, table, of_given, h, c, *weights)  # type: ignore[no-untyped-call]
    return outputs, (h, c)


def step(gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """One step without gradients: gates (b, 4d), which are written over, and cells (b, d) -> h and c after it."""
    if not serves(gates):
        into, forget, new, out = gates.chunk(4, -1)
        after = (forget.sigmoid() * cells).addcmul_(into.sigmoid(), new.tanh())
        return out.sigmoid() * after.tanh(), after
    gates, cells = gates.contiguous(), cells.contiguous()
    states, after, order = torch.empty_like(cells), torch.empty_like(cells), torch.arange(len(cells))
    told, place = _told(cells, 0, states, states, order), _place(states, after)
    _loaded().lstm_step(told, gates.data_ptr(), cells.data_ptr(), place, place, states.data_ptr())
    return states, after


class _Shape(NamedTuple):
    """Of packed steps: how many rows each has, how long the batch is, and where in it the rows lie."""

    sizes: tuple[int, ...]
    length: int
    order: Tensor


class _Run(torch.autograd.Function):
    """Both directions over packed steps; what they are given is rows ``ids`` of a table, or ``inputs``, or both."""

    @staticmethod
    def forward(
        ctx: Any,
        shape: _Shape,
        ids: Tensor | None,
        table: Tensor | None,
        inputs: Tensor | None,
        h: Tensor | None,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        sizes, length, order = shape
        rows, units, directions = sizes[0], weights[1].shape[1], len(weights) // 3
        padded = sizes[-1] < rows or len(sizes) < length
        outputs = (weights[0].new_zeros if padded else weights[0].new_empty)(rows, length, directions, units)
        last = weights[0].new_empty(2, directions, rows, units)
        start = None if h is None or c is None else (h, c)
        wanted = any(ctx.needs_input_grad)
        kept: list[Tensor] = []
        for number in range(directions):
            into, of_state, bias = weights[3 * number : 3 * number + 3]
            through = _Direction(sizes, order, outputs[:, :, number].unbind(1), number == 1)
            gates = _gates(ids, table, inputs, into, bias)
            kept += through.run(gates, inputs if wanted else None, start, of_state, last[:, number])
        if wanted:
            ctx.save_for_backward(ids, table, order, *weights, *kept)
            ctx.sizes, ctx.started = sizes, start is not None
        return outputs.flatten(2), last[0], last[1]

    @staticmethod
    def backward(ctx: Any, of_outputs: Tensor, of_h: Tensor, of_c: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "an LSTM in C has no gradients of gradients; set ATTNX_COMPILE=off, and torch's has them"
            )
        ids, table, order, *saved = ctx.saved_tensors
        directions = len(saved) // 6
        of_outputs = of_outputs if of_outputs.stride(2) == 1 else of_outputs.contiguous()
        split = of_outputs.view(*of_outputs.shape[:2], directions, -1)
        of_table: Tensor | None = None
        of_inputs: Tensor | None = None
        of_start: tuple[Tensor | None, Tensor | None] = (None, None)
        of_weights: list[Tensor] = []
        for number in range(directions):
            into, state, _ = saved[3 * number : 3 * number + 3]
            kept = saved[3 * (directions + number) :][:3]
            through = _Direction(ctx.sizes, order, split[:, :, number].unbind(1), number == 1)
            of_gates, of_start = through.gradients(kept, state, (of_h[number], of_c[number]), ctx.started)
            found, given = into.tensor_split([0 if table is None else table.shape[1]], 1)
            of_given, of_state = (of_gates.t() @ kept[1]).tensor_split([given.shape[1]], 1)
            # Of each row of the table the sum over the steps that look it up stands for all of them.
            summed = of_gates if table is None else _sums(of_gates, ids, len(table))
            if ctx.needs_input_grad[2]:
                of_table = _added(of_table, summed, found)
            if ctx.needs_input_grad[3]:
                of_inputs = _added(of_inputs, of_gates, given)
            of_into = of_given if table is None else torch.cat([summed.t() @ table, of_given], 1)
            of_weights += [of_into, of_state, summed.sum(0)]
        return None, None, of_table, of_inputs, *of_start, *of_weights


def _gates(ids: Tensor | None, table: Tensor | None, inputs: Tensor | None, into: Tensor, bias: Tensor) -> Tensor:
    """What the inputs make of the gates, (n, 4d) for all n packed steps."""
    if table is None or ids is None:
        assert inputs is not None, "there is one of the two"
        return torch.addmm(bias, inputs, into.t())
    found, given = into.tensor_split([table.shape[1]], 1)
    gates = torch.addmm(bias, table, found.t()).index_select(0, ids)
    return gates if inputs is None else gates.addmm_(inputs, given.t())


def _sums(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    """(n, w) rows and which of ``count`` each belongs to -> their sums (count, w)."""
    sums = rows.new_zeros(count, rows.shape[1])
    threads = torch.get_num_threads() if rows.numel() > ALONE else 1
    _loaded().lstm_sums(*rows.shape, ids.data_ptr(), rows.data_ptr(), sums.data_ptr(), threads)
    return sums


def _added(to: Tensor | None, one: Tensor, other: Tensor) -> Tensor:
    """The product of the two, added to what there is."""
    return one @ other if to is None else to.addmm_(one, other)


class _Direction(NamedTuple):
    """One direction; ``outputs`` are those of each step, or their gradients, (b, d)."""

    sizes: tuple[int, ...]
    order: Tensor
    outputs: tuple[Tensor, ...]
    backwards: bool

    def run(
        self,
        gates: Tensor,
        inputs: Tensor | None,
        start: tuple[Tensor, Tensor] | None,
        of_state: Tensor,
        last: Tensor,
    ) -> tuple[Tensor, ...]:
        """Write the outputs, and the ``last`` h and c (2, b, d).

        Args:
            gates: what the inputs make of them, (n, 4d) for all n packed steps; written over.
            inputs: (n, k) what is to be kept with the states.
            start: h and c, each (b, d).
            of_state: (4d, d).
            last: where to write.

        Returns:
            for the gradients: the gates' activations (n, 4d); inputs joined with the states before (n, k + d), so that
            the weights' gradients are one product; the cells before (n, d).
        """
        width, units = 0 if inputs is None else inputs.shape[1], of_state.shape[1]
        joined, cells = gates.new_zeros(len(gates), width + units), gates.new_zeros(len(gates), units)
        if inputs is not None:
            joined[:, :width] = inputs
        states = joined[:, width:]
        if start is not None:
            states[: self.sizes[0]], cells[: self.sizes[0]] = (tensor[self.order] for tensor in start)
        steps = self._in_turn(gates, states, cells)
        ends, library = _place(*last), _loaded()
        for number, ((gate, state, cell, output), after) in enumerate(itertools.zip_longest(steps, steps[1:])):
            if number or start is not None:  # else the state is zero
                gate.addmm_(state, of_state.t())
            going_on, following = (min(len(gate), len(after[0])), _place(*after[1:3])) if after else (0, ends)
            told = _told(cell, going_on, state, output, self.order)
            library.lstm_step(told, gate.data_ptr(), cell.data_ptr(), following, ends, output.data_ptr())
        return gates, joined, cells

    def gradients(
        self, kept: Sequence[Tensor], of_state: Tensor, of_last: tuple[Tensor, Tensor], started: bool
    ) -> tuple[Tensor, tuple[Tensor | None, Tensor | None]]:
        """From the gradients of the outputs and of the ``last`` h and c (b, d) those of the gates, before activation.

        Returns:
            they, (n, 4d), and those of the ``start``, if there was one.
        """
        gates, _, cells = kept
        of_gates = torch.empty_like(gates)
        of_h, of_c = (tensor[self.order] for tensor in of_last)
        steps = self._in_turn(gates, cells, of_gates)
        library, given = _loaded(), (of_h.data_ptr(), of_c.data_ptr())
        for left, (gate, cell, of_gate, of_output) in zip(range(len(steps))[::-1], steps[::-1], strict=True):
            told = _told(cell, 0, cell, of_output, self.order)
            found = gate.data_ptr(), cell.data_ptr(), *given, of_output.data_ptr(), of_gate.data_ptr()
            library.lstm_step_gradients(told, *found)
            if left or started:  # else nobody asks for those of the state before
                torch.mm(of_gate, of_state, out=of_h[: len(of_gate)])
        if not started:
            return of_gates, (None, None)
        of_start = torch.empty_like(of_h), torch.empty_like(of_c)
        of_start[0][self.order], of_start[1][self.order] = of_h, of_c
        return of_gates, of_start

    def _in_turn(self, *packed: Tensor) -> list[tuple[Tensor, ...]]:
        """Of each step its rows of what is packed, and its outputs, in the order in which steps are run."""
        parts = [torch.split(tensor, list(self.sizes)) for tensor in packed]
        steps = [*zip(*parts, self.outputs[: len(self.sizes)], strict=True)]
        return steps[::-1] if self.backwards else steps


def _told(cells: Tensor, going_on: int, states: Tensor, outputs: Tensor, order: Tensor) -> Any:
    """What the C functions are told of a step: its shape and strides, where its rows lie, and how many threads."""
    rows, units = cells.shape
    threads = torch.get_num_threads() if rows * units > ALONE else 1
    numbers = rows, units, going_on, states.stride(0), outputs.stride(0), order.data_ptr(), threads
    return (ctypes.c_long * len(numbers))(*numbers)


def _place(states: Tensor, cells: Tensor) -> Any:
    return (ctypes.c_void_p * 2)(states.data_ptr(), cells.data_ptr())


@functools.cache
def _library() -> ctypes.CDLL | None:
    library = compiled.load(SOURCE)
    if library is not None:
        pointer = ctypes.c_void_p
        library.lstm_step.argtypes = [pointer] * 6
        library.lstm_step_gradients.argtypes = [pointer] * 7
        number = ctypes.c_long
        library.lstm_sums.argtypes = [number, number, pointer, pointer, pointer, number]
    return library


def _loaded() -> ctypes.CDLL:
    library = _library()
    assert library is not None, "serves() says no"
    return library

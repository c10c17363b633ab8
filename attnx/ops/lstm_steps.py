"""The steps of an LSTM over packed rows: products are torch's, what is pointwise is in C."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx import compiled

SOURCE = Path(__file__).with_name("lstm.c")
ALONE = 2**14
"""Units of a step up to which one thread is faster than several."""


class Inputs(NamedTuple):
    """What inputs make of the gates of all n packed steps: a matrix (n, 4d), or rows ``ids`` of a table, or both."""

    gates: Tensor | None
    table: Tensor | None
    ids: Tensor | None


class Direction(NamedTuple):
    """One direction; ``outputs`` are those of each step, or their gradients, (b, d)."""

    sizes: tuple[int, ...]
    order: Tensor
    outputs: tuple[Tensor, ...]
    backwards: bool

    def run(
        self,
        inputs: Inputs,
        beside: Tensor | None,
        start: tuple[Tensor, Tensor] | None,
        of_state: Tensor,
        last: Tensor,
        wanted: bool,
    ) -> tuple[Tensor, ...]:
        """Write the outputs, and the ``last`` h and c (2, b, d).

        Args:
            inputs: what they make of the gates; a matrix is written over.
            beside: (n, k) what is to be kept beside the states before.
            start: h and c, each (b, d).
            of_state: (4d, d).
            last: where to write.
            wanted: whether gradients are.

        Returns:
            for the gradients, if they are wanted: the gates' activations (n, 4d); what is kept beside the states before
            (n, k + d), so that the weights' gradients are one product; the cells before (n, d).
        """
        rows, units = sum(self.sizes), of_state.shape[1]
        width = 0 if beside is None else beside.shape[1]
        joined, cells = of_state.new_zeros(rows, width + units), of_state.new_zeros(rows, units)
        if beside is not None:
            joined[:, :width] = beside
        states = joined[:, width:]
        if start is not None:
            states[: self.sizes[0]], cells[: self.sizes[0]] = (tensor[self.order] for tensor in start)
        known = inputs.gates is not None
        room = rows if wanted else self.sizes[0]  # which every step writes over, if nothing of it is kept
        gates = of_state.new_empty(room, 4 * units) if inputs.gates is None else inputs.gates
        each = self._split(gates) if known or wanted else [gates[:size] for size in self.sizes]
        ids = [None] * len(self.sizes) if inputs.ids is None else self._split(inputs.ids)
        steps = self._in_turn(each, self._split(states), self._split(cells), ids)
        ends, in_c = _place(*last), _loaded()
        for number, ((gate, state, cell, found, output), after) in enumerate(itertools.zip_longest(steps, steps[1:])):
            if number or start is not None:  # else the state is zero
                gate.addmm_(state, of_state.t(), beta=int(known))
            elif not known:
                gate.zero_()
            going_on, following = (min(len(gate), len(after[0])), _place(*after[1:3])) if after else (0, ends)
            told = _told(cell, going_on, state, output, self.order, inputs.table, found)
            in_c.lstm_step(told, gate.data_ptr(), cell.data_ptr(), following, ends, output.data_ptr())
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
        steps = self._in_turn(*map(self._split, (gates, cells, of_gates)))
        in_c, given = _loaded(), (of_h.data_ptr(), of_c.data_ptr())
        for left, (gate, cell, of_gate, of_output) in zip(range(len(steps))[::-1], steps[::-1], strict=True):
            told = _told(cell, 0, cell, of_output, self.order)
            found = gate.data_ptr(), cell.data_ptr(), *given, of_output.data_ptr(), of_gate.data_ptr()
            in_c.lstm_step_gradients(told, *found)
            if left or started:  # else nobody asks for those of the state before
                torch.mm(of_gate, of_state, out=of_h[: len(of_gate)])
        if not started:
            return of_gates, (None, None)
        of_start = torch.empty_like(of_h), torch.empty_like(of_c)
        of_start[0][self.order], of_start[1][self.order] = of_h, of_c
        return of_gates, of_start

    def _split(self, packed: Tensor) -> Sequence[Tensor]:
        """Of each step its rows."""
        return torch.split(packed, list(self.sizes))

    def _in_turn(self, *parts: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Of each step its parts, and its outputs, in the order in which steps are run."""
        steps = [*zip(*parts, self.outputs[: len(self.sizes)], strict=True)]
        return steps[::-1] if self.backwards else steps


def step(gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """One step of its own: gates (b, 4d), which are written over, and cells (b, d) -> h and c after it."""
    gates, cells = gates.contiguous(), cells.contiguous()
    states, after, order = torch.empty_like(cells), torch.empty_like(cells), torch.arange(len(cells))
    told, place = _told(cells, 0, states, states, order), _place(states, after)
    _loaded().lstm_step(told, gates.data_ptr(), cells.data_ptr(), place, place, states.data_ptr())
    return states, after


def sums(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    """(n, w) rows and which of ``count`` each belongs to -> their sums (count, w)."""
    found = rows.new_zeros(count, rows.shape[1])
    threads = torch.get_num_threads() if rows.numel() > ALONE else 1
    _loaded().lstm_sums(*rows.shape, ids.data_ptr(), rows.data_ptr(), found.data_ptr(), threads)
    return found


def _told(
    cells: Tensor,
    going_on: int,
    states: Tensor,
    outputs: Tensor,
    order: Tensor,
    table: Tensor | None = None,
    ids: Tensor | None = None,
) -> Any:
    """What the C functions are told of a step.

    Its shape and strides, where its rows lie, how many threads, and which rows of a table it adds to the gates.
    """
    rows, units = cells.shape
    threads = torch.get_num_threads() if rows * units > ALONE else 1
    added = (0, 0) if table is None or ids is None else (table.data_ptr(), ids.data_ptr())
    numbers = rows, units, going_on, states.stride(0), outputs.stride(0), order.data_ptr(), threads, *added
    return (ctypes.c_long * len(numbers))(*numbers)


def _place(states: Tensor, cells: Tensor) -> Any:
    return (ctypes.c_void_p * 2)(states.data_ptr(), cells.data_ptr())


@functools.cache
def library() -> ctypes.CDLL | None:
    """What is in C; None without a compiler."""
    found = compiled.load(SOURCE)
    if found is not None:
        pointer, number = ctypes.c_void_p, ctypes.c_long
        found.lstm_step.argtypes = [pointer] * 6
        found.lstm_step_gradients.argtypes = [pointer] * 7
        found.lstm_sums.argtypes = [number, number, pointer, pointer, pointer, number]
    return found


def _loaded() -> ctypes.CDLL:
    found = library()
    assert found is not None, "who calls has asked for it"
    return found

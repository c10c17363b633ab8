"""The steps of an LSTM over packed rows, in C; products only where that is faster than torch's."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx.accel import c_build

SOURCE = Path(__file__).with_name("lstm.c")
ALONE = 2**14
"""Units of a step up to which one thread is faster than several."""
LANES = 16
"""Numbers in a vector where products are C's."""
ENOUGH = 16
"""From so many rows of all steps on it pays to lay weights out for the products in C."""
PARTS = 2
"""How many parts side by side a step multiplies at most."""


POINTER, NUMBER = ctypes.c_void_p, ctypes.c_long
library = c_build.functions(
    SOURCE,
    takes={
        "lstm_step": [POINTER] * 6,
        "lstm_step_gradients": [POINTER] * 7,
        "lstm_multiply": [POINTER, NUMBER, POINTER, POINTER],
        "lstm_lay_out": [NUMBER, NUMBER, POINTER, NUMBER, POINTER],
        "lstm_sums": [NUMBER, NUMBER, POINTER, POINTER, POINTER, NUMBER],
    },
    returns={"lstm_multiplies": NUMBER},
)
"""Finds what is in C; None without a compiler."""


class GateInputs(NamedTuple):
    """What inputs make of the gates of all n packed steps: a matrix (n, 4d), or rows ``ids`` of a table, or both.

    If it is known, ``alike`` (t, b) numbers the rows of each step: those side by side with one number have one state.
    """

    gates: Tensor | None
    table: Tensor | None
    ids: Tensor | None
    alike: Tensor | None = None


class PackedWeights(NamedTuple):
    """Weights (u, k) that every step multiplies with its parts side by side; laid out for C where products are C's."""

    plain: Tensor
    laid_out: Tensor | None


class Direction(NamedTuple):
    """One direction; ``outputs`` are those of each step, or their gradients, (b, d)."""

    sizes: tuple[int, ...]
    order: Tensor
    outputs: tuple[Tensor, ...]
    backwards: bool

    def run(
        self,
        inputs: GateInputs,
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
            (n, k + d), so that the weights' gradients are one product; the cells before (n, d). Else what is left over.
        """
        rows, units = sum(self.sizes), of_state.shape[1]
        width = 0 if beside is None else beside.shape[1]
        if wanted:
            joined, cells = of_state.new_zeros(rows, width + units), of_state.new_zeros(rows, units)
            each_state, each_cell = self._split(joined[:, width:]), self._split(cells)
        else:
            joined, cells = of_state.new_zeros(2, 2, self.sizes[0], units)  # rows that begin later begin with zeros
            each_state, each_cell = self._taking_turns(joined), self._taking_turns(cells)
        if beside is not None:
            joined[:, :width] = beside
        if start is not None:
            each_state[0][:], each_cell[0][:] = (tensor[self.order] for tensor in start)
        weights = prepared(of_state, rows)
        known, in_c = inputs.gates is not None, weights.laid_out is not None
        # Where nothing of them is kept, every step writes over the gates of the one before, or has none.
        room = rows if wanted else 0 if in_c else self.sizes[0]
        gates = of_state.new_empty(room, 4 * units) if inputs.gates is None else inputs.gates
        each = self._split(gates) if known or wanted else [gates[:size] for size in self.sizes]
        ids = [None] * len(self.sizes) if inputs.ids is None else self._split(inputs.ids)
        alike = [None] * len(self.sizes) if inputs.alike is None else inputs.alike.unbind()[: len(self.sizes)]
        steps = self._in_turn(each, each_state, each_cell, ids, alike)
        ends, run_step = _place(*last), library().lstm_step
        for number, (now, after) in enumerate(itertools.zip_longest(steps, steps[1:])):
            gate, state, cell, found, parents, output = now
            parts = [state] if number or start is not None else []  # else the state is zero
            if parts and not in_c:
                gate.addmm_(state, of_state.t(), beta=int(known))
            told = _told(
                cell.shape,
                min(len(cell), len(after[2])) if after else 0,
                (after[1] if after else state, output, gate),
                self.order,
                looked_up=None if inputs.table is None else (inputs.table, found),
                added=known or (bool(parts) and not in_c),
                kept=wanted,
                multiplied=(weights.laid_out, parts) if in_c else (None, []),
                parents=parents,
            )
            following = _place(*after[1:3]) if after else ends
            run_step(told, gate.data_ptr(), cell.data_ptr(), following, ends, output.data_ptr())
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
        in_c, given = library(), (of_h.data_ptr(), of_c.data_ptr())
        for left, (gate, cell, of_gate, of_output) in zip(range(len(steps))[::-1], steps[::-1], strict=True):
            told = _told(cell.shape, 0, (cell, of_output, of_gate), self.order)
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

    def _taking_turns(self, two: Tensor) -> Sequence[Tensor]:
        """Of each step a part of one of two, as steps are run, so that each finds what the one before has left."""
        last = len(self.sizes) - 1
        return [two[(last - at if self.backwards else at) % 2, :size] for at, size in enumerate(self.sizes)]

    def _in_turn(self, *parts: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Of each step its parts, and its outputs, in the order in which steps are run."""
        steps = [*zip(*parts, self.outputs[: len(self.sizes)], strict=True)]
        return steps[::-1] if self.backwards else steps


def multiplies() -> bool:
    """Whether products are faster here than torch's."""
    return bool(library().lstm_multiplies())


def prepared(weights: Tensor, rows: int) -> PackedWeights:
    """Weights (u, k), of a step (4d, k), for so many rows in all."""
    if rows < ENOUGH or not multiplies():
        return PackedWeights(weights, None)
    weights = weights if weights.stride(1) == 1 else weights.contiguous()
    count, width = weights.shape
    laid_out = weights.new_empty(-(-count // (4 * LANES)) * LANES * 4 * width)
    library().lstm_lay_out(count, width, weights.data_ptr(), weights.stride(0), laid_out.data_ptr())
    return PackedWeights(weights, laid_out)


def step(
    cells: Tensor,
    added: Tensor | None,
    looked_up: tuple[Tensor, Tensor] | None,
    weights: PackedWeights | None,
    parts: Sequence[Tensor],
    parents: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """One step of its own: cells (b, d), and what makes the gates, as :func:`attnx.accel.lstm.autograd.step` says.

    Returns:
        h and c after it.
    """
    cells, laid_out = cells.contiguous(), None if weights is None else weights.laid_out
    assert not parts or laid_out is not None, "products are C's where weights are laid out"
    parts = [part if part.stride(1) == 1 else part.contiguous() for part in parts]
    parents = None if parents is None else parents.contiguous()
    added = added if added is None or added.stride(1) == 1 else added.contiguous()
    looked_up = None if looked_up is None else (looked_up[0].contiguous(), looked_up[1].contiguous())
    states, after, order = torch.empty_like(cells), torch.empty_like(cells), torch.arange(len(cells))
    strided = states, states, cells if added is None else added
    told = _told(
        cells.shape,
        0,
        strided,
        order,
        looked_up,
        added is not None,
        False,
        (laid_out if parts else None, parts),
        parents,
    )
    place = _place(states, after)
    given = None if added is None else added.data_ptr()
    library().lstm_step(told, given, cells.data_ptr(), place, place, states.data_ptr())
    return states, after


def product(part: Tensor, weights: PackedWeights, added: Tensor | None, out: Tensor) -> None:
    """Write (n, k) times the weights (u, k), and what is added (u), to (n, u); its rows may lie in something wider."""
    assert weights.laid_out is not None, "products are C's where weights are laid out"
    part = part if part.stride(1) == 1 else part.contiguous()
    added = None if added is None else added.contiguous()
    (rows, count), nothing = out.shape, torch.empty(0, dtype=torch.int64)
    shape = rows, -(-count // 4)
    told = _told(shape, 0, (out, out, out), nothing, multiplied=(weights.laid_out, [part]))
    library().lstm_multiply(told, count, None if added is None else added.data_ptr(), out.data_ptr())


def sums(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    """(n, w) rows and which of ``count`` each belongs to -> their sums (count, w)."""
    found = rows.new_zeros(count, rows.shape[1])
    threads = torch.get_num_threads() if rows.numel() > ALONE else 1
    library().lstm_sums(*rows.shape, ids.data_ptr(), rows.data_ptr(), found.data_ptr(), threads)
    return found


def _told(
    shape: Sequence[int],
    going_on: int,
    strided: tuple[Tensor, Tensor, Tensor],
    order: Tensor,
    looked_up: tuple[Tensor, Tensor] | None = None,
    added: bool = False,
    kept: bool = False,
    multiplied: tuple[Tensor | None, Sequence[Tensor]] = (None, ()),
    parents: Tensor | None = None,
) -> Any:
    """What the C functions are told of a step.

    Its shape, how far apart the rows of the next states, the outputs and the gates are, where its rows lie, how many
    threads, which rows of a table are added to the gates, what the weights are multiplied with, and of which rows, side
    by side, that is the same.
    """
    rows, units = shape
    threads = torch.get_num_threads() if rows * units > ALONE else 1
    found = (0, 0) if looked_up is None else tuple(tensor.data_ptr() for tensor in looked_up)
    weights, parts = multiplied
    given = [number for part in parts for number in (part.data_ptr(), part.stride(0), part.shape[1])]
    numbers = (
        *(rows, units, going_on, *(tensor.stride(0) for tensor in strided), order.data_ptr(), threads),
        *(*found, 0 if parents is None else parents.data_ptr(), added, kept),
        0 if weights is None else weights.data_ptr(),
        *(*given, *[0] * (3 * (PARTS - len(parts)))),
    )
    return (ctypes.c_long * len(numbers))(*numbers)


def _place(states: Tensor, cells: Tensor) -> Any:
    return (ctypes.c_void_p * 2)(states.data_ptr(), cells.data_ptr())

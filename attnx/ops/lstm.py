"""An LSTM over rows of different lengths, its cell in C: the numbers and the gradients of ``torch.nn.LSTM``."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from attnx import compiled
from attnx.ops.followed import followed

SOURCE = Path(__file__).with_suffix(".c")
ALONE = 2**14
"""Units of a step up to which one thread is faster than several."""
Weights = tuple[Tensor, Tensor, Tensor]
"""Of one direction: (4d, e) of the input, (4d, d) of the state, and what is added (4d)."""


def serves(inputs: Tensor) -> bool:
    """Whether :func:`run` can be used: on a CPU, in single precision, with a C compiler.

    What traces, compiles or vectorises a model follows torch's operations and nothing else.
    """
    plain = type(inputs) is Tensor and inputs.dtype == torch.float32 and inputs.device.type == "cpu"
    return plain and not (torch.is_autocast_enabled("cpu") or followed()) and _library() is not None


def run(
    inputs: Tensor, lengths: Tensor | None, start: tuple[Tensor, Tensor] | None, directions: Sequence[Weights]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run over whole sequences, a step of all rows that have it at a time; padding costs nothing.

    What comes of the inputs is one product for all steps, and so are the gradients of each direction's weights.

    Formula: ``c_t = s(f) c_{t-1} + s(i) tanh(g), h_t = s(o) tanh(c_t)``; ``[i; f; g; o] = W x_t + U h_{t-1} + b``
    Source: Hochreiter and Schmidhuber 1997; the gate f: Gers et al. 2000, https://doi.org/10.1162/089976600300015015

    Args:
        inputs: (b, t, e).
        lengths: (b,) on the CPU, each at least 1; left out, every row is full.
        start: h and c, each (b, d), where there is one direction; zeros if left out.
        directions: the weights of the first and, where there is a second, of the one that begins at the end.

    Returns:
        the outputs (b, t, directions * d), zero beyond a row's length; h and c where each row ends, each
        (directions, b, d).
    """
    full = torch.full((len(inputs),), inputs.shape[1]) if lengths is None else lengths
    packed = pack_padded_sequence(inputs, full, batch_first=True, enforce_sorted=lengths is None)
    order = torch.arange(len(inputs)) if packed.sorted_indices is None else packed.sorted_indices
    sizes = tuple(packed.batch_sizes.tolist())
    weights = itertools.chain.from_iterable(directions)
    h, c = start or (None, None)
    outputs, h, c = _Run.apply(sizes, inputs.shape[1], order, packed.data, h, c, *weights)  # type: ignore[no-untyped-call]
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


class _Run(torch.autograd.Function):
    """Both directions over packed steps: of ``sizes`` rows each, which lie in the batch where ``order`` says."""

    @staticmethod
    def forward(
        ctx: Any,
        sizes: tuple[int, ...],
        length: int,
        order: Tensor,
        inputs: Tensor,
        h: Tensor | None,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, units, directions = sizes[0], weights[1].shape[1], len(weights) // 3
        padded = sizes[-1] < rows or len(sizes) < length
        outputs = (inputs.new_zeros if padded else inputs.new_empty)(rows, length, directions, units)
        last = inputs.new_empty(2, directions, rows, units)
        start = None if h is None or c is None else (h, c)
        wanted = any(ctx.needs_input_grad)
        kept: list[Tensor] = []
        for number in range(directions):
            into = _Direction(sizes, order, outputs[:, :, number].unbind(1), number == 1)
            kept += into.run(inputs, start, weights[3 * number : 3 * number + 3], last[:, number], wanted)
        if wanted:
            ctx.save_for_backward(order, *weights, *kept)
            ctx.sizes, ctx.started = sizes, start is not None
        return outputs.flatten(2), last[0], last[1]

    @staticmethod
    def backward(ctx: Any, of_outputs: Tensor, of_h: Tensor, of_c: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "an LSTM in C has no gradients of gradients; set ATTNX_COMPILE=off, and torch's has them"
            )
        order, *saved = ctx.saved_tensors
        directions = len(saved) // 6
        of_outputs = of_outputs if of_outputs.stride(2) == 1 else of_outputs.contiguous()
        split = of_outputs.view(*of_outputs.shape[:2], directions, -1)
        of_inputs: Tensor | None = None
        of_start: tuple[Tensor | None, Tensor | None] = (None, None)
        of_weights: list[Tensor] = []
        for number in range(directions):
            into, state, _ = saved[3 * number : 3 * number + 3]
            kept = saved[3 * (directions + number) :][:3]
            through = _Direction(ctx.sizes, order, split[:, :, number].unbind(1), number == 1)
            of_gates, of_start = through.gradients(kept, state, (of_h[number], of_c[number]), ctx.started)
            if ctx.needs_input_grad[3]:
                of_inputs = of_gates @ into if of_inputs is None else of_inputs.addmm_(of_gates, into)
            of_joined = of_gates.t() @ kept[1]
            of_weights += [*of_joined.split((into.shape[1], state.shape[1]), 1), of_gates.sum(0)]
        return None, None, None, of_inputs, *of_start, *of_weights


class _Direction(NamedTuple):
    """One direction; ``outputs`` are those of each step, or their gradients, (b, d)."""

    sizes: tuple[int, ...]
    order: Tensor
    outputs: tuple[Tensor, ...]
    backwards: bool

    def run(
        self, inputs: Tensor, start: tuple[Tensor, Tensor] | None, weights: Sequence[Tensor], last: Tensor, wanted: bool
    ) -> tuple[Tensor, ...]:
        """Write the outputs, and the ``last`` h and c (2, b, d).

        Returns:
            for the gradients, if they are wanted: the gates' activations (n, 4d) of all n packed steps; inputs joined
            with the states before (n, e + d), so that the weights' gradients are one product; the cells before (n, d).
        """
        into, of_state, bias = weights
        width, units = inputs.shape[1] if wanted else 0, of_state.shape[1]
        gates = torch.addmm(bias, inputs, into.t())
        joined, cells = inputs.new_zeros(len(inputs), width + units), inputs.new_zeros(len(inputs), units)
        joined[:, :width] = inputs[:, :width]
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
    return library


def _loaded() -> ctypes.CDLL:
    library = _library()
    assert library is not None, "serves() says no"
    return library

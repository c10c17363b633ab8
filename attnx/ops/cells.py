"""The pointwise half of a recurrent cell, with its gradient: an LSTM's, a GRU's and a plain tanh's.

Products with weights are their callers'. Where a C compiler is at hand, one pass of compiled code does it for float32
on a CPU; elsewhere tensor operations do the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnx.ops.compiled import load

Tensors = tuple[Tensor, ...]
SOURCE = Path(__file__).with_suffix(".c")


class Cell(NamedTuple):
    """One kind of cell; n rows, h units.

    Attributes:
        gates: the width before activation over h.
        tensors: how many tensors (n, h) its state has, the output first.
        apart: what comes from the input, ``x``, and what comes from the state, ``u``, meet only inside the cell, both
            (n, gates * h); else ``x`` is their sum, and ``u`` None.
        forward: (x, u, before, gates, after) writes the activated gates and the state after.
        backward: (gates, u, before, after, given, dx, du) writes the gradients of ``x``, and of ``u`` if there is one,
            from those given for ``after``, and returns those of ``before`` but for the part that goes through the
            product with the weights; None where that is all.
    """

    gates: int
    tensors: int
    apart: bool
    forward: Callable[[Tensor, Tensor | None, Tensors, Tensor, Tensors], None]
    backward: Callable[[Tensor, Tensor | None, Tensors, Tensors, Tensors, Tensor, Tensor], tuple[Tensor | None, ...]]


def _lstm_forward(x: Tensor, u: Tensor | None, before: Tensors, gates: Tensor, after: Tensors) -> None:
    if run := _code("lstm_forward", x, before[1], gates, after[1], after[0]):
        run()
        return
    i, f, g, o = x.chunk(4, dim=-1)
    torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], dim=-1, out=gates)
    i, f, g, o = gates.chunk(4, dim=-1)
    after[1].copy_(f * before[1] + i * g)
    after[0].copy_(o * after[1].tanh())


def _lstm_backward(
    gates: Tensor, u: Tensor | None, before: Tensors, after: Tensors, given: Tensors, dx: Tensor, du: Tensor
) -> tuple[Tensor | None, ...]:
    dc = torch.empty_like(after[1])
    if run := _code("lstm_backward", gates, before[1], after[1], *given, dc, dx):
        run()
        return None, dc
    i, f, g, o = gates.chunk(4, dim=-1)
    t = after[1].tanh()
    dc = given[1] + given[0] * o * (1 - t * t)
    parts = [dc * g * i * (1 - i), dc * before[1] * f * (1 - f), dc * i * (1 - g * g), given[0] * t * o * (1 - o)]
    torch.cat(parts, dim=-1, out=dx)
    return None, dc * f


def _gru_forward(x: Tensor, u: Tensor | None, before: Tensors, gates: Tensor, after: Tensors) -> None:
    assert u is not None
    if run := _code("gru_forward", x, u, before[0], gates, after[0]):
        run()
        return
    (xr, xz, xc), (ur, uz, uc) = x.chunk(3, dim=-1), u.chunk(3, dim=-1)
    r, z = (xr + ur).sigmoid(), (xz + uz).sigmoid()
    c = (xc + r * uc).tanh()
    torch.cat([r, z, c], dim=-1, out=gates)
    after[0].copy_(c + z * (before[0] - c))


def _gru_backward(
    gates: Tensor, u: Tensor | None, before: Tensors, after: Tensors, given: Tensors, dx: Tensor, du: Tensor
) -> tuple[Tensor | None, ...]:
    assert u is not None
    dh = torch.empty_like(before[0])
    if run := _code("gru_backward", gates, u, before[0], given[0], dh, dx, du):
        run()
        return (dh,)
    (r, z, c), uc = gates.chunk(3, dim=-1), u.chunk(3, dim=-1)[2]
    dc = given[0] * (1 - z) * (1 - c * c)
    dr, dz = dc * uc * r * (1 - r), given[0] * (before[0] - c) * z * (1 - z)
    torch.cat([dr, dz, dc], dim=-1, out=dx)
    torch.cat([dr, dz, dc * r], dim=-1, out=du)
    return (given[0] * z,)


def _tanh_forward(x: Tensor, u: Tensor | None, before: Tensors, gates: Tensor, after: Tensors) -> None:
    torch.tanh(x, out=gates)
    after[0].copy_(gates)


def _tanh_backward(
    gates: Tensor, u: Tensor | None, before: Tensors, after: Tensors, given: Tensors, dx: Tensor, du: Tensor
) -> tuple[Tensor | None, ...]:
    torch.mul(given[0], 1 - gates * gates, out=dx)
    return (None,)


CELLS = {
    "lstm": Cell(4, 2, False, _lstm_forward, _lstm_backward),
    "gru": Cell(3, 1, True, _gru_forward, _gru_backward),
    "rnn": Cell(1, 1, False, _tanh_forward, _tanh_backward),
}


def cell_step(cell: str, x: Tensor, u: Tensor | None, before: Tensors) -> Tensors:
    """One step of a cell.

    Args:
        cell: ``lstm``, ``gru`` or ``rnn``.
        x: (n, gates * h), what comes from the input before activation, and unless ``apart`` from the state.
        u: (n, gates * h), what comes from the state, for a cell that takes it apart.
        before: the state, (n, h) each.

    Returns:
        the state after, the output first.
    """
    after: Tensors = _Step.apply(cell, x, u, *before)  # type: ignore[no-untyped-call]
    return after


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, x: Tensor, u: Tensor | None, *before: Tensor) -> Tensors:
        cell = CELLS[name]
        gates, after = torch.empty_like(x), tuple(torch.empty_like(tensor) for tensor in before)
        cell.forward(x, u, before, gates, after)
        ctx.save_for_backward(gates, u, *before, *after)
        ctx.cell = name
        return after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> Any:
        cell = CELLS[ctx.cell]
        gates, u, *kept = ctx.saved_tensors
        before, after = tuple(kept[: cell.tensors]), tuple(kept[cell.tensors :])
        dx = torch.empty_like(gates)
        du = torch.empty_like(gates) if cell.apart else dx
        rest = cell.backward(gates, u, before, after, given, dx, du)
        return None, dx, du if cell.apart else None, *rest


def _code(name: str, *tensors: Tensor) -> Callable[[], None] | None:
    """The compiled function of this name with its arguments, if it can take them."""
    if not all(one.dtype == torch.float32 and one.is_cpu and one.is_contiguous() for one in tensors):
        return None
    code = load(SOURCE)
    if code is None:
        return None
    function: Any = getattr(code, name)
    # The second argument is a tensor of the state's width for every one of them.
    rows, units = tensors[1].shape if name.startswith("lstm") else tensors[2].shape
    return partial(
        function, ctypes.c_long(rows), ctypes.c_long(units), *(ctypes.c_void_p(one.data_ptr()) for one in tensors)
    )

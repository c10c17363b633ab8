"""An LSTM over rows of different lengths, its cell in C: the numbers and the gradients of ``torch.nn.LSTM``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from attnx.accel.dispatch import open_to_c
from attnx.accel.embedding_lookup import Lookup
from attnx.accel.lstm import bindings
from attnx.accel.lstm.bindings import Direction, GateInputs, library, sums
from attnx.accel.lstm.bindings import PackedWeights as PackedWeights

OFTEN = 2
"""How many times a table's rows must be looked up on average for it to pay that each is mapped once."""
OfDirection = tuple[Tensor, Tensor, Tensor]
"""Of one direction: (4d, e) of the input, (4d, d) of the state, and what is added (4d)."""


def serves(inputs: Tensor) -> bool:
    """Whether :func:`run` can be used: on a CPU, in single precision, with a C compiler.

    What traces, compiles or vectorizes a model follows torch's operations and nothing else.
    """
    return open_to_c(inputs) and library() is not None


def looks_up(table: Tensor, ids: Tensor) -> bool:
    """Whether :func:`run` had better be given a lookup than the rows that are found."""
    return serves(table) and OFTEN * len(table) <= ids.numel()


def run(
    inputs: Tensor | Lookup,
    lengths: Tensor | None,
    start: tuple[Tensor, Tensor] | None,
    directions: Sequence[OfDirection],
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

    Raises:
        IndexError: a lookup of rows that are not in the table.
    """
    table, ids, given = _taken_apart(inputs)
    rows, length = inputs.ids.shape if isinstance(inputs, Lookup) else inputs.shape[:2]
    full = torch.full((rows,), length) if lengths is None else lengths
    h, c = start or (None, None)
    if ids is not None and given is None and start is None and rows > 1 and bindings.multiplies():
        shapes = [_packed_alike(ids, full, backwards) for backwards in (False, True)[: len(directions)]]
    else:
        shape, given = _packed(ids, given, full, lengths is None)
        shapes = [shape] * len(directions)
    weights = itertools.chain.from_iterable(directions)
    outputs, h, c = _Run.apply(shapes, table, given, h, c, *weights)  # type: ignore[no-untyped-call]
    return outputs, (h, c)


def _taken_apart(inputs: Tensor | Lookup) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Table and ids, if they are a lookup, and what is given as it is, if anything is."""
    if isinstance(inputs, Tensor):
        return None, None, inputs
    table, ids, beside = inputs
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
        raise IndexError(f"ids from {int(ids.min())} to {int(ids.max())} in a table of {len(table)} rows")
    return table, ids, torch.cat(beside, dim=-1) if beside else None


def prepared(weights: Tensor, rows: int) -> PackedWeights:
    """Weights (4d, k) that :func:`step` is to multiply, in steps that have so many rows in all."""
    return bindings.prepared(weights, rows) if serves(weights) else PackedWeights(weights, None)


def step(
    cells: Tensor,
    added: Tensor | None,
    looked_up: tuple[Tensor, Tensor] | None = None,
    weights: PackedWeights | None = None,
    parts: Sequence[Tensor] = (),
    parents: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step without gradients, from whatever makes the gates.

    Args:
        cells: (b, d).
        added: (b, 4d), None for nothing.
        looked_up: a table (n, 4d), and which of its rows (b,) int64 are added to that.
        weights: what is multiplied with the parts.
        parts: at most two, side by side as wide as the weights.
        parents: (b,) int64; rows side by side that have the same are alike in all parts, and are multiplied once.

    Returns:
        h and c after it.
    """
    served = serves(cells)
    if parts and weights is not None and (weights.laid_out is None or not served):
        widths = [part.shape[1] for part in parts]
        for part, weight in zip(parts, torch.split(weights.plain, widths, 1), strict=True):
            added = part @ weight.t() if added is None else torch.addmm(added, part, weight.t())
        parts = ()
    if served:
        return bindings.step(cells, added, looked_up, weights, parts, parents)
    if looked_up is not None:
        found = looked_up[0].index_select(0, looked_up[1])
        added = found if added is None else added + found
    assert added is not None, "gates are made of something"
    into, forget, new, out = added.chunk(4, -1)
    after = (forget.sigmoid() * cells).addcmul_(into.sigmoid(), new.tanh())
    return out.sigmoid() * after.tanh(), after


class _Shape(NamedTuple):
    """Packed steps.

    Attributes:
        sizes: how many rows each has.
        length: how long the batch is.
        order: where in it the rows lie.
        ids: (n,) what is looked up.
        alike: (t, b) int64, for each step; rows side by side with the same number have the same steps behind them.
    """

    sizes: tuple[int, ...]
    length: int
    order: Tensor
    ids: Tensor | None
    alike: Tensor | None = None


def _packed(
    ids: Tensor | None, given: Tensor | None, lengths: Tensor, are_sorted: bool
) -> tuple[_Shape, Tensor | None]:
    """What is looked up (b, t), and what is given (b, t, e), packed."""
    parts = [
        None if part is None else pack_padded_sequence(part, lengths, batch_first=True, enforce_sorted=are_sorted)
        for part in (ids, given)
    ]
    length = next(part.shape[1] for part in (ids, given) if part is not None)
    packed = next(part for part in parts if part is not None)
    order = torch.arange(len(lengths)) if packed.sorted_indices is None else packed.sorted_indices
    of_ids, of_given = (None if part is None else part.data for part in parts)
    return _Shape(tuple(packed.batch_sizes.tolist()), length, order, of_ids), of_given


def _packed_alike(ids: Tensor, lengths: Tensor, backwards: bool) -> _Shape:
    """What is looked up (b, t), packed so that rows lie side by side that begin, or end, alike."""
    columns = ids.t().numpy()
    order = torch.from_numpy(np.lexsort((*(columns if backwards else columns[::-1]), -lengths.numpy())))
    ids, lengths = ids[order], lengths[order]
    packed = pack_padded_sequence(ids, lengths, batch_first=True)
    unlike = (ids[1:] != ids[:-1]).long()
    up_to = unlike.cumsum(1)
    behind = unlike.sum(1, keepdim=True) - up_to if backwards else up_to - unlike
    apart = (behind > 0) | (lengths[1:] != lengths[:-1])[:, None]
    alike = F.pad(apart.cumsum(0), (0, 0, 1, 0)).t().contiguous()
    return _Shape(tuple(packed.batch_sizes.tolist()), ids.shape[1], order, packed.data, alike)


class _Run(torch.autograd.Function):
    """Each direction over packed steps; what they are given is rows of a table, or ``inputs``, or both."""

    @staticmethod
    def forward(
        ctx: Any,
        shapes: Sequence[_Shape],
        table: Tensor | None,
        inputs: Tensor | None,
        h: Tensor | None,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        sizes, length = shapes[0][:2]
        rows, units, directions = sizes[0], weights[1].shape[1], len(weights) // 3
        padded = sizes[-1] < rows or len(sizes) < length
        outputs = (weights[0].new_zeros if padded else weights[0].new_empty)(rows, length, directions, units)
        last = weights[0].new_empty(2, directions, rows, units)
        start = None if h is None or c is None else (h, c)
        wanted = any(ctx.needs_input_grad)
        kept: list[Tensor] = []
        for number, shape in enumerate(shapes):
            into, of_state, bias = weights[3 * number : 3 * number + 3]
            through = Direction(sizes, shape.order, outputs[:, :, number].unbind(1), number == 1)
            found, given = _parts(into, table)
            mapped = None if table is None else F.linear(table, found, bias)
            gates = None if inputs is None else F.linear(inputs, given, bias if table is None else None)
            made = GateInputs(gates, mapped, shape.ids, shape.alike)
            kept += through.run(made, inputs if wanted else None, start, of_state, last[:, number], wanted)
        if wanted:
            packed = [part for shape in shapes for part in (shape.ids, shape.order)]
            ctx.save_for_backward(table, *packed, *weights, *kept)
            ctx.sizes, ctx.started = sizes, start is not None
        return outputs.flatten(2), last[0], last[1]

    @staticmethod
    def backward(ctx: Any, of_outputs: Tensor, of_h: Tensor, of_c: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "an LSTM in C has no gradients of gradients; set ATTNX_COMPILE=off, and torch's has them"
            )
        table, *saved = ctx.saved_tensors
        directions = len(saved) // 8
        packed, saved = saved[: 2 * directions], saved[2 * directions :]
        of_outputs = of_outputs if of_outputs.stride(2) == 1 else of_outputs.contiguous()
        split = of_outputs.view(*of_outputs.shape[:2], directions, -1)
        of_table: Tensor | None = None
        of_inputs: Tensor | None = None
        of_start: tuple[Tensor | None, Tensor | None] = (None, None)
        of_weights: list[Tensor] = []
        for number in range(directions):
            into, state, _ = saved[3 * number : 3 * number + 3]
            kept = saved[3 * (directions + number) :][:3]
            ids, order = packed[2 * number : 2 * number + 2]
            through = Direction(ctx.sizes, order, split[:, :, number].unbind(1), number == 1)
            of_gates, of_start = through.gradients(kept, state, (of_h[number], of_c[number]), ctx.started)
            found, given = _parts(into, table)
            of_given, of_state = (of_gates.t() @ kept[1]).tensor_split([given.shape[1]], 1)
            # Of each row of the table the sum over the steps that look it up stands for all of them.
            summed = of_gates if table is None else sums(of_gates, ids, len(table))
            if ctx.needs_input_grad[1]:
                of_table = _added(of_table, summed, found)
            if ctx.needs_input_grad[2]:
                of_inputs = _added(of_inputs, of_gates, given)
            of_into = of_given if table is None else torch.cat([summed.t() @ table, of_given], 1)
            of_weights += [of_into, of_state, summed.sum(0)]
        return None, of_table, of_inputs, *of_start, *of_weights


def _parts(into: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor]:
    """The weights of what is looked up, and of what is given."""
    found, given = into.tensor_split([0 if table is None else table.shape[1]], 1)
    return found, given


def _added(to: Tensor | None, one: Tensor, other: Tensor) -> Tensor:
    """The product of the two, added to what there is."""
    return one @ other if to is None else to.addmm_(one, other)

"""Scores of additive attention and their gradients in Triton, for tensors of a GPU; it needs triton to be called.

Never run on a GPU yet: compiled for some, and tested in Triton's interpreter. Triton reads the annotations of what it
compiles, too, and knows no names there but its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import Any

import torch
from torch import Tensor

from attnx.accel.attention.additive import blocks

FOUND = importlib.util.find_spec("triton") is not None
triton: Any = importlib.import_module("triton") if FOUND else None
tl: Any = importlib.import_module("triton.language") if FOUND else None

TILE = {"high": 32, "wide": 32}
"""Queries and positions whose scores one program sums."""
STRIP = {"high": 32, "wide": 32}
"""Rows of an operand and hidden units whose gradients one program sums."""


def jit(function: Any) -> Any:
    """Triton's, where it is installed, of which one program serves all sizes: what :func:`build` compiles is all."""
    if not FOUND:
        return function
    given = [name for name, one in inspect.signature(function).parameters.items() if one.annotation != "tl.constexpr"]
    return triton.jit(function, do_not_specialize=given, do_not_specialize_on_alignment=given)


def build(device: torch.device) -> None:
    """Compile each function for a device, and launch it there with one number each.

    Raises:
        ImportError: triton is not installed, or is broken.
        Exception: whatever Triton, its compilers or CUDA raise.
    """
    importlib.import_module("triton")
    one = torch.ones(1, 1, 1, device=device)
    scores(one, one, one.flatten())
    gradients(one, one, one.flatten(), one)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) in float32 -> (b, q, m)."""
    (batch, steps, width), positions = queries.shape, keys.shape[1]
    found = queries.new_empty(batch, steps, positions)
    # Hidden units first, so that neighbors in memory are neighbors in a tile.
    by_unit = queries.mT.contiguous(), keys.mT.contiguous()
    grid = batch, triton.cdiv(steps, TILE["high"]), triton.cdiv(positions, TILE["wide"])
    with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call]
        _scores[grid](*by_unit, v.contiguous(), found, steps, positions, width, **TILE)
    return found


def gradients(queries: Tensor, keys: Tensor, v: Tensor, of_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the scores' gradients those of queries, keys and v; the same bits at every run."""
    queries, keys, v, of_scores = (tensor.contiguous() for tensor in (queries, keys, v, of_scores))
    positions = keys.shape[1]
    of_queries, of_v = _of_rows(queries, keys, v, of_scores, (positions, 1))
    of_keys, _ = _of_rows(keys, queries, v, of_scores, (1, positions))
    return of_queries, of_keys, of_v.sum((0, 1))


def _of_rows(
    rows: Tensor, others: Tensor, v: Tensor, of_scores: Tensor, steps: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The gradient of one operand, and parts (b, blocks, d) of v's; ``steps`` lead from score to score in both."""
    (batch, count, width), blocks = rows.shape, triton.cdiv(rows.shape[1], STRIP["high"])
    of_rows, of_v = torch.empty_like(rows), rows.new_empty(batch, blocks, width)
    grid = batch, blocks, triton.cdiv(width, STRIP["wide"])
    with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
        _gradients[grid](rows, others, v, of_scores, of_rows, of_v, count, others.shape[1], width, *steps, **STRIP)
    return of_rows, of_v


@jit
def _tanh(x: tl.tensor) -> tl.tensor:
    # No exponential is too large: of an infinite one nothing is left. A small x would lose its digits beside 1.
    far = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
    square = x * x
    near = x * (1.0 - square * (1.0 / 3 - square * (2.0 / 15)))
    return tl.where(tl.abs(x) < 0.1, near, far)


@jit
def _scores(
    queries: tl.tensor,
    keys: tl.tensor,
    v: tl.tensor,
    found: tl.tensor,
    steps: tl.tensor,
    positions: tl.tensor,
    width: tl.tensor,
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch = tl.program_id(0).to(tl.int64)
    step = tl.program_id(1) * high + tl.arange(0, high)
    position = tl.program_id(2) * wide + tl.arange(0, wide)
    sums = tl.zeros((high, wide), tl.float32)
    for unit in range(width):
        a = tl.load(queries + (batch * width + unit) * steps + step, step < steps, 0.0)
        b = tl.load(keys + (batch * width + unit) * positions + position, position < positions, 0.0)
        sums += tl.load(v + unit) * _tanh(a[:, None] + b[None, :])
    inside = (step < steps)[:, None] & (position < positions)[None, :]
    tl.store(found + (batch * steps + step[:, None]) * positions + position[None, :], sums, inside)


@jit
def _gradients(
    rows: tl.tensor,
    others: tl.tensor,
    v: tl.tensor,
    of_scores: tl.tensor,
    of_rows: tl.tensor,
    of_v: tl.tensor,
    count: tl.tensor,
    count_others: tl.tensor,
    width: tl.tensor,
    step_row: tl.tensor,
    step_other: tl.tensor,
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1).to(tl.int64) * high + tl.arange(0, high)
    unit = tl.program_id(2) * wide + tl.arange(0, wide)
    inside = (row < count)[:, None] & (unit < width)[None, :]
    place = (batch * count + row[:, None]) * width + unit[None, :]
    a = tl.load(rows + place, inside, 0.0)
    sums = tl.zeros((high, wide), tl.float32)
    sums_v = tl.zeros((high, wide), tl.float32)
    of_scores += batch * count * count_others + row * step_row
    for other in range(count_others):
        b = tl.load(others + (batch * count_others + other) * width + unit, unit < width, 0.0)
        of_score = tl.load(of_scores, row < count, 0.0)
        hidden = _tanh(a + b[None, :])
        sums += of_score[:, None] * (1.0 - hidden * hidden)
        sums_v += of_score[:, None] * hidden
        of_scores += step_other
    tl.store(of_rows + place, sums * tl.load(v + unit, unit < width, 0.0)[None, :], inside)
    # A row too many has no scores and added nothing.
    block = batch * tl.num_programs(1) + tl.program_id(1)
    tl.store(of_v + block * width + unit, tl.sum(sums_v, 0), unit < width)


BACKEND = blocks.AdditiveBackend(scores, gradients)

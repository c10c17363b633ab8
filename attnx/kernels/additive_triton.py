"""Scores of additive attention and their gradients in Triton, for tensors of a GPU; it needs triton to be called.

Never run on a GPU yet: tested in Triton's interpreter.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch
from torch import Tensor

FOUND = importlib.util.find_spec("triton") is not None
triton: Any = importlib.import_module("triton") if FOUND else None
tl: Any = importlib.import_module("triton.language") if FOUND else None

TILE = {"high": 32, "wide": 32}
"""Queries and positions whose scores one program sums."""
STRIP = {"high": 32, "wide": 32}
"""Rows of an operand and hidden units whose gradients one program sums."""


def jit(function: Any) -> Any:
    """Triton's, where it is installed."""
    return triton.jit(function) if FOUND else function


def scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) in float32 -> (b, q, m)."""
    (batch, steps, width), positions = queries.shape, keys.shape[1]
    found = queries.new_empty(batch, steps, positions)
    # Hidden units first, so that neighbours in memory are neighbours in a tile.
    by_unit = queries.mT.contiguous(), keys.mT.contiguous()
    grid = batch, triton.cdiv(steps, TILE["high"]), triton.cdiv(positions, TILE["wide"])
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
    _gradients[grid](rows, others, v, of_scores, of_rows, of_v, count, others.shape[1], width, *steps, **STRIP)
    return of_rows, of_v


@jit
def _tanh(x: Any) -> Any:
    # No exponential is too large: of an infinite one nothing is left. A small x would lose its digits beside 1.
    far = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
    square = x * x
    near = x * (1.0 - square * (1.0 / 3 - square * (2.0 / 15)))
    return tl.where(tl.abs(x) < 0.1, near, far)


@jit
def _scores(
    queries: Any,
    keys: Any,
    v: Any,
    found: Any,
    steps: Any,
    positions: Any,
    width: Any,
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
    rows: Any,
    others: Any,
    v: Any,
    of_scores: Any,
    of_rows: Any,
    of_v: Any,
    count: Any,
    count_others: Any,
    width: Any,
    step_row: Any,
    step_other: Any,
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * high + tl.arange(0, high)
    unit = tl.program_id(2) * wide + tl.arange(0, wide)
    inside = (row < count)[:, None] & (unit < width)[None, :]
    place = (batch * count + row[:, None]) * width + unit[None, :]
    a = tl.load(rows + place, inside, 0.0)
    sums = tl.zeros((high, wide), tl.float32)
    sums_v = tl.zeros((high, wide), tl.float32)
    of_scores += batch * count * count_others
    for other in range(count_others):
        b = tl.load(others + (batch * count_others + other) * width + unit, unit < width, 0.0)
        of_score = tl.load(of_scores + row * step_row + other * step_other, row < count, 0.0)
        hidden = _tanh(a + b[None, :])
        sums += of_score[:, None] * (1.0 - hidden * hidden)
        sums_v += of_score[:, None] * hidden
    tl.store(of_rows + place, sums * tl.load(v + unit, unit < width, 0.0)[None, :], inside)
    # A row too many has no scores and added nothing.
    block = batch * tl.num_programs(1) + tl.program_id(1)
    tl.store(of_v + block * width + unit, tl.sum(sums_v, 0), unit < width)

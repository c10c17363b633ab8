"""Triton kernels of additive attention: scores and their gradients on a GPU; importable without Triton.

Never run on a GPU yet: compiled for three generations, and tested in Triton's interpreter. Triton evaluates the
annotations of its kernels, which may name nothing but Triton's types.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import Any

import torch
from torch import Tensor

from attnx.accel.attention.additive import blocks

HAS_TRITON = importlib.util.find_spec("triton") is not None
triton: Any = importlib.import_module("triton") if HAS_TRITON else None
tl: Any = importlib.import_module("triton.language") if HAS_TRITON else None

TILE = {"high": 32, "wide": 32}
"""Queries and positions whose scores one program sums."""
STRIP = {"high": 32, "wide": 32}
"""Rows of an operand and hidden units whose gradients one program sums."""


def jit(function: Any) -> Any:
    """Triton's ``jit`` where it is installed, without specialization on sizes, so that there are few variants."""
    if not HAS_TRITON:
        return function
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.annotation != "tl.constexpr"]
    return triton.jit(function, do_not_specialize=names, do_not_specialize_on_alignment=names)


def compile_kernels(device: torch.device) -> None:
    """Compile each kernel for a device, and launch it there on tensors of one element.

    Raises:
        ImportError: triton is not installed, or is broken.
        Exception: whatever Triton, its compilers or CUDA raise.
    """
    importlib.import_module("triton")
    unit = torch.ones(1, 1, 1, device=device)
    _scores(unit, unit, unit.flatten())
    _gradients(unit, unit, unit.flatten(), unit)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) in float32 -> (b, q, m)."""
    (batch, steps, width), positions = queries.shape, keys.shape[1]
    result = queries.new_empty(batch, steps, positions)
    # Hidden units first, so that neighbors in memory are neighbors in a tile.
    by_unit = queries.mT.contiguous(), keys.mT.contiguous()
    grid = batch, triton.cdiv(steps, TILE["high"]), triton.cdiv(positions, TILE["wide"])
    with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call]
        _scores_kernel[grid](*by_unit, v.contiguous(), result, steps, positions, width, **TILE)
    return result


def _gradients(queries: Tensor, keys: Tensor, v: Tensor, grad_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and v from those of the scores; deterministic."""
    queries, keys, v, grad_scores = (tensor.contiguous() for tensor in (queries, keys, v, grad_scores))
    positions = keys.shape[1]
    grad_queries, grad_v = _operand_gradients(queries, keys, v, grad_scores, (positions, 1))
    grad_keys, _ = _operand_gradients(keys, queries, v, grad_scores, (1, positions))
    return grad_queries, grad_keys, grad_v.sum((0, 1))


def _operand_gradients(
    rows: Tensor, other_rows: Tensor, v: Tensor, grad_scores: Tensor, strides: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The gradient of one operand, and partial sums (b, blocks, d) of v's.

    ``strides`` are the steps in memory from score to score along the rows and along the other operand's.
    """
    (batch, count, width), blocks = rows.shape, triton.cdiv(rows.shape[1], STRIP["high"])
    grad_rows, grad_v = torch.empty_like(rows), rows.new_empty(batch, blocks, width)
    grid = batch, blocks, triton.cdiv(width, STRIP["wide"])
    with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
        _gradients_kernel[grid](
            rows, other_rows, v, grad_scores, grad_rows, grad_v, count, other_rows.shape[1], width, *strides, **STRIP
        )
    return grad_rows, grad_v


@jit
def _tanh(x: tl.tensor) -> tl.tensor:
    # An infinite exponential gives 1. The series serves small x, which would lose its digits in a sum with 1.
    far = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
    square = x * x
    near = x * (1.0 - square * (1.0 / 3 - square * (2.0 / 15)))
    return tl.where(tl.abs(x) < 0.1, near, far)


@jit
def _scores_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    v: tl.tensor,
    result: tl.tensor,
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
    tl.store(result + (batch * steps + step[:, None]) * positions + position[None, :], sums, inside)


@jit
def _gradients_kernel(
    rows: tl.tensor,
    other_rows: tl.tensor,
    v: tl.tensor,
    grad_scores: tl.tensor,
    grad_rows: tl.tensor,
    grad_v: tl.tensor,
    count: tl.tensor,
    other_count: tl.tensor,
    width: tl.tensor,
    row_stride: tl.tensor,
    other_stride: tl.tensor,
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1).to(tl.int64) * high + tl.arange(0, high)
    unit = tl.program_id(2) * wide + tl.arange(0, wide)
    inside = (row < count)[:, None] & (unit < width)[None, :]
    offset = (batch * count + row[:, None]) * width + unit[None, :]
    a = tl.load(rows + offset, inside, 0.0)
    sums = tl.zeros((high, wide), tl.float32)
    sums_v = tl.zeros((high, wide), tl.float32)
    grad_scores += batch * count * other_count + row * row_stride
    for other_index in range(other_count):
        b = tl.load(other_rows + (batch * other_count + other_index) * width + unit, unit < width, 0.0)
        grad_score = tl.load(grad_scores, row < count, 0.0)
        hidden = _tanh(a + b[None, :])
        sums += grad_score[:, None] * (1.0 - hidden * hidden)
        sums_v += grad_score[:, None] * hidden
        grad_scores += other_stride
    tl.store(grad_rows + offset, sums * tl.load(v + unit, unit < width, 0.0)[None, :], inside)
    # Rows beyond the last have zero gradients and add nothing.
    block = batch * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_v + block * width + unit, tl.sum(sums_v, 0), unit < width)


BACKEND = blocks.AdditiveBackend(_scores, _gradients)

"""Triton kernels of additive attention: scores and their gradients on a GPU; importable without Triton.

Triton evaluates the annotations of its kernels, which may name nothing but Triton's types.

``tanh(a + b) = 1 - 2 / (1 + e^(2a) e^(2b))``: a first kernel writes the exponentials of each row once, so that a pair
costs one reciprocal. They serve while ``max |a| + max |b|`` of a row of the batch is between ``SMALLEST_PEAK`` and
``LARGEST_PEAK``, with an absolute error of about 1e-7, and of 1e-6 where large numbers cancel. For larger numbers,
whose powers have fewer digits, smaller ones, for which 1e-7 is much, inf and NaN, tanh of each sum is computed.
"""

from __future__ import annotations

import importlib

import torch
from torch import Tensor

from attnx.accel.attention.additive import blocks
from attnx.accel.attention.additive.triton_jit import HAS_TRITON, OLDEST_TRITON, classify_sizes, jit, tl, triton, tuned

PREPARED_TILE = {"high": 16, "wide": 64}
"""Rows and units of an operand that are prepared at a time."""
SCORE_TILES = (32, 64, 4), (1, 128, 4), (16, 32, 4)
GRADIENT_TILES = (8, 128, 4), (1, 128, 4), (16, 32, 4)
"""Rows, positions and warps of a program, of which the fastest is taken: the fastest of ten on an H200, at three sizes,
and one for a single row."""
SMALLEST_PEAK, LARGEST_PEAK = (tl.constexpr(0.25), tl.constexpr(20.0)) if HAS_TRITON else (0.25, 20.0)
"""Bounds of ``max |a| + max |b|`` between which the exponentials serve."""
IS_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret) if HAS_TRITON else False


def compile_kernels(device: torch.device) -> None:
    """Compile each kernel for a device, and launch it there on tensors of one element.

    Raises:
        ImportError: triton is not installed, is broken or too old.
        Exception: whatever Triton, its compilers or CUDA raise.
    """
    importlib.import_module("triton")
    if not HAS_TRITON:
        raise ImportError(f"the kernels need triton {OLDEST_TRITON} or newer")
    unit = torch.ones(1, 1, 1, device=device)
    _scores(unit, unit, unit.flatten())
    _gradients(unit, unit, unit.flatten(), unit)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def prepare_operand(operand: Tensor, is_unit_first: bool) -> Tensor:
    """Its numbers, their powers e^(2x), and each row's largest absolute value: (b, n, d) -> (b, n, d + d + 1).

    With units first it is (b, d + d + 1, n), so that neighbors in memory are neighbors in a tile of scores.
    """
    (batch, count, width), columns = operand.shape, 2 * operand.shape[2] + 1
    shape, strides = ((columns, count), (1, count)) if is_unit_first else ((count, columns), (columns, 1))
    result = operand.new_empty(batch, *shape)
    grid = (batch * triton.cdiv(count, PREPARED_TILE["high"]),)
    with torch.cuda.device_of(operand):  # type: ignore[no-untyped-call]
        _prepare_kernel[grid](operand.contiguous(), result, count, width, *strides, **PREPARED_TILE)
    return result


def _scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) in float32 -> (b, q, m)."""
    (batch, steps, width), positions = queries.shape, keys.shape[1]
    result = queries.new_empty(batch, steps, positions)
    operands = prepare_operand(queries, True), prepare_operand(keys, True), v.contiguous(), result

    def grid(tile: dict[str, int]) -> tuple[int, int]:
        return batch * triton.cdiv(steps, tile["high"]), triton.cdiv(positions, tile["wide"])

    with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call]
        _scores_kernel[grid](*operands, steps, positions, width, classify_sizes(batch, steps, positions, width))
    return result


def _gradients(queries: Tensor, keys: Tensor, v: Tensor, grad_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and v from those of the scores; the same bits with any tile."""
    v, grad_scores, positions = v.contiguous(), grad_scores.contiguous(), keys.shape[1]
    queries, keys = prepare_operand(queries, False), prepare_operand(keys, False)
    grad_queries, grad_v = _operand_gradients(queries, keys, v, grad_scores, row_stride=positions, other_stride=1)
    grad_keys, _ = _operand_gradients(keys, queries, v, grad_scores, row_stride=1, other_stride=positions)
    return grad_queries, grad_keys, grad_v.sum((0, 1))


def _operand_gradients(
    rows: Tensor, other_rows: Tensor, v: Tensor, grad_scores: Tensor, row_stride: int, other_stride: int
) -> tuple[Tensor, Tensor]:
    """The gradient of a prepared operand, and each row's part (b, n, d) of v's.

    The strides are the steps in memory from score to score along the rows and along the other operand's.
    """
    (batch, count, _), other_count, width = rows.shape, other_rows.shape[1], len(v)
    grad_rows, grad_v = rows.new_empty(2, batch, count, width)
    classes = classify_sizes(batch, count, other_count, width)

    def grid(tile: dict[str, int]) -> tuple[int, int]:
        return batch * triton.cdiv(count, tile["high"]), triton.cdiv(width, tile["wide"])

    with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
        _gradients_kernel[grid](
            rows, other_rows, v, grad_scores, grad_rows, grad_v, count, other_count, width, row_stride, other_stride,
            classes,
        )  # fmt: skip
    return grad_rows, grad_v


@jit
def locate_tile(count: tl.tensor, high: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """The row of the batch and the ``high`` of its ``count`` rows that this program is for.

    Both follow from the grid's first axis, which has room for 2^31 programs. The others have room for 65,535.
    """
    tiles = tl.cdiv(count, high)
    program = tl.program_id(0)
    return (program // tiles).to(tl.int64), program % tiles * high + tl.arange(0, high)


@jit
def _prepare_kernel(
    operand: tl.tensor,
    result: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch, row = locate_tile(count, high)
    operand += (batch * count + row[:, None]) * width
    result += batch * count * (2 * width + 1) + row * row_stride
    peak = tl.zeros((high,), tl.float32)
    for start in range(0, width, wide):
        unit = start + tl.arange(0, wide)
        inside = (row < count)[:, None] & (unit < width)[None, :]
        x = tl.load(operand + unit[None, :], inside, 0.0)
        to = result[:, None] + unit[None, :] * column_stride
        tl.store(to, x, inside)
        tl.store(to + width * column_stride, tl.exp(2.0 * x), inside)
        peak = tl.maximum(peak, tl.max(tl.where(x == x, tl.abs(x), float("inf")), 1))
    tl.store(result + 2 * width * column_stride, peak, row < count)


@jit
def can_use_powers(
    peaks: tl.tensor, stride: tl.tensor, count: tl.tensor, other_peaks: tl.tensor, other_stride: tl.tensor,
    other_count: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Whether powers serve for all pairs of a row of the batch, by the peaks of both operands."""
    peak = _largest(peaks, stride, count) + _largest(other_peaks, other_stride, other_count)
    return (peak >= SMALLEST_PEAK) & (peak <= LARGEST_PEAK)


@jit
def _largest(numbers: tl.tensor, stride: tl.tensor, count: tl.tensor) -> tl.tensor:
    largest = tl.zeros((128,), tl.float32)
    for start in range(0, count, 128):
        index = start + tl.arange(0, 128)
        largest = tl.maximum(largest, tl.load(numbers + index * stride, index < count, 0.0))
    return tl.max(largest)


@jit
def _reciprocal(x: tl.tensor) -> tl.tensor:
    # Triton's division handles denormal and huge numbers, in five instructions more.
    if IS_INTERPRETED:
        return 1.0 / x
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)


@jit
def _tanh_of_sum(a: tl.tensor, b: tl.tensor, are_powers: tl.constexpr) -> tl.tensor:
    """The tanh of a + b, from the numbers or from their powers."""
    if are_powers:
        return 1.0 - 2.0 * _reciprocal(1.0 + a * b)
    # An infinite exponential gives 1. The series serves small x, which would lose its digits in a sum with 1.
    x = a + b
    far = 1.0 - 2.0 * _reciprocal(1.0 + tl.exp(2.0 * x))
    square = x * x
    near = x * (1.0 - square * (1.0 / 3 - square * (2.0 / 15)))
    return tl.where(tl.abs(x) < 0.1, near, far)


@jit
def _sum_terms(
    queries: tl.tensor, keys: tl.tensor, v: tl.tensor, step: tl.tensor, position: tl.tensor, steps: tl.tensor,
    positions: tl.tensor, width: tl.tensor, are_powers: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The scores of some steps and positions, from numbers or powers with units first."""
    sums = tl.zeros((step.shape[0], position.shape[0]), tl.float32)
    for unit in range(width):
        a = tl.load(queries + unit * steps + step, step < steps, 0.0)
        b = tl.load(keys + unit * positions + position, position < positions, 0.0)
        sums += tl.load(v + unit) * _tanh_of_sum(a[:, None], b[None, :], are_powers)
    return sums


@jit
def tile_scores(
    queries: tl.tensor, keys: tl.tensor, v: tl.tensor, step: tl.tensor, position: tl.tensor, steps: tl.tensor,
    positions: tl.tensor, width: tl.tensor, has_powers: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """The scores of some steps and positions in a row of the batch whose operands are prepared with units first."""
    if has_powers:
        queries += width * steps
        keys += width * positions
        sums = _sum_terms(queries, keys, v, step, position, steps, positions, width, True)
    else:
        sums = _sum_terms(queries, keys, v, step, position, steps, positions, width, False)
    return sums


@tuned(*SCORE_TILES)
def _scores_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    v: tl.tensor,
    result: tl.tensor,
    steps: tl.tensor,
    positions: tl.tensor,
    width: tl.tensor,
    size_class: tl.tensor,  # for the choice of a tile alone
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch, step = locate_tile(steps, high)
    position = tl.program_id(1) * wide + tl.arange(0, wide)
    queries += batch * steps * (2 * width + 1)
    keys += batch * positions * (2 * width + 1)
    has_powers = can_use_powers(queries + 2 * width * steps, 1, steps, keys + 2 * width * positions, 1, positions)
    sums = tile_scores(queries, keys, v, step, position, steps, positions, width, has_powers)
    inside = (step < steps)[:, None] & (position < positions)[None, :]
    tl.store(result + (batch * steps + step[:, None]) * positions + position[None, :], sums, inside)


@jit
def _sum_gradients(
    a: tl.tensor, other_rows: tl.tensor, grad_scores: tl.tensor, unit: tl.tensor, is_row: tl.tensor, width: tl.tensor,
    other_count: tl.tensor, other_stride: tl.tensor, are_powers: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """The sums over the other operand's rows of gradients of scores times 1 - tanh^2, and times tanh."""
    sums = tl.zeros_like(a)
    sums_v = tl.zeros_like(a)
    for _ in range(other_count):
        b = tl.load(other_rows + unit, unit < width, 0.0)
        grad_score = tl.load(grad_scores, is_row, 0.0)[:, None]
        hidden = _tanh_of_sum(a, b[None, :], are_powers)
        sums += grad_score * (1.0 - hidden * hidden)
        sums_v += grad_score * hidden
        other_rows += 2 * width + 1
        grad_scores += other_stride
    return sums, sums_v


@tuned(*GRADIENT_TILES)
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
    size_class: tl.tensor,  # for the choice of a tile alone
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    columns = 2 * width + 1
    batch, row = locate_tile(count, high)
    row = row.to(tl.int64)
    unit = tl.program_id(1) * wide + tl.arange(0, wide)
    is_row = row < count
    inside = is_row[:, None] & (unit < width)[None, :]
    rows += batch * count * columns
    other_rows += batch * other_count * columns
    grads = grad_scores + batch * count * other_count + row * row_stride
    numbers = rows + row[:, None] * columns + unit[None, :]
    if can_use_powers(rows + 2 * width, columns, count, other_rows + 2 * width, columns, other_count):
        a = tl.load(numbers + width, inside, 0.0)
        sums, sums_v = _sum_gradients(
            a, other_rows + width, grads, unit, is_row, width, other_count, other_stride, True
        )
    else:
        a = tl.load(numbers, inside, 0.0)
        sums, sums_v = _sum_gradients(a, other_rows, grads, unit, is_row, width, other_count, other_stride, False)
    to = (batch * count + row[:, None]) * width + unit[None, :]
    tl.store(grad_rows + to, sums * tl.load(v + unit, unit < width, 0.0)[None, :], inside)
    tl.store(grad_v + to, sums_v, inside)


# A block is so large, 64 MiB, that a GPU computes longer than the CPU needs to queue it.
BACKEND = blocks.AdditiveBackend(_scores, _gradients, max_scores_to_keep=2**24, scores_per_block=2**24)

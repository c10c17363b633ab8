"""The Triton kernels of additive attention, on a GPU or in Triton's interpreter on the CPU."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.accel.attention.additive.blocks import additive_scores
from attnx.accel.attention.additive.cuda import CudaAdditive
from attnx.attention.attention import Attention
from attnx.attention.factory import build

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter computes with numpy, which warns of an overflow where a GPU just has inf.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def additive_triton(triton_that):
    return triton_that("interprets" if DEVICE == "cpu" else "compiles")


def by_definition(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(queries[..., :, None, :] + keys[..., None, :, :]) @ v


def set_tile(additive_triton: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for kernel in (additive_triton._scores_kernel, additive_triton._gradients_kernel):
        monkeypatch.setattr(kernel, "configs", [additive_triton.triton.Config({"high": size, "wide": size})])


@pytest.mark.parametrize(
    ("sizes", "tile", "scale"),
    [
        ((2, 3, 5, 7), 32, 1e-3),
        ((2, 3, 5, 7), 32, 1.0),
        ((2, 3, 5, 7), 32, 30.0),
        ((1, 11, 13, 9), 8, 1.0),
        ((3, 1, 37, 2), 32, 1.0),
    ],
)
def test_scores_and_gradients(additive_triton, sizes, tile, scale, monkeypatch):
    """As by definition in float64, with rows, positions and hidden units that fill a tile and that do not."""
    set_tile(additive_triton, monkeypatch, tile)  # small for what has several, since the interpreter takes long
    rows, queries, positions, width = sizes
    shapes = (rows, queries, width), (rows, positions, width), (width,)
    operands = [scale * torch.randn(shape, device=DEVICE) for shape in shapes]
    grad_scores = torch.randn(rows, queries, positions, device=DEVICE)
    actual = [additive_triton.BACKEND.scores(*operands), *additive_triton.BACKEND.gradients(*operands, grad_scores)]
    leaves = [operand.double().requires_grad_() for operand in operands]
    exact = by_definition(*leaves)
    expected = [exact.detach(), *torch.autograd.grad(exact, leaves, grad_scores.double())]
    for actual_value, right in zip(actual, expected, strict=True):
        assert (actual_value - right).abs().max() < 3e-6 * right.abs().max()


def test_the_tile_does_not_change_the_results(additive_triton, monkeypatch):
    """It is chosen by time, so that another run may have another."""
    operands = [torch.randn(shape, device=DEVICE) for shape in ((1, 7, 9), (1, 11, 9), (9,), (1, 7, 11))]
    results = []
    for size in (8, 16):
        set_tile(additive_triton, monkeypatch, size)
        results.append([additive_triton.BACKEND.scores(*operands[:3]), *additive_triton.BACKEND.gradients(*operands)])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_a_tile_is_chosen_once_for_a_magnitude(additive_triton, monkeypatch):
    """The fastest, by a first call with each; longer rows of the same magnitude are not timed again."""
    kernel, calls = additive_triton._scores_kernel, []
    slow, fast = (additive_triton.triton.Config({"high": size, "wide": 8}) for size in (8, 16))

    def time_call(call: Callable[[], None], quantiles: Any) -> list[float]:
        calls.append(call())
        return [len(calls) % 2] * len(quantiles)

    for name, value in {"configs": [slow, fast], "cache": {}, "cache_results": False, "do_bench": time_call}.items():
        monkeypatch.setitem(vars(kernel), name, value)
    for positions, expected_calls in ((4, 2), (7, 2), (8, 4), (5, 4)):
        operands = [torch.randn(shape, device=DEVICE) for shape in ((1, 3, 2), (1, positions, 2), (2,))]
        torch.testing.assert_close(additive_triton.BACKEND.scores(*operands), by_definition(*operands))
        assert (kernel.best_config, len(calls)) == (fast, expected_calls)


@pytest.mark.parametrize(
    ("a", "b", "tanh"),
    [
        (0.0, 0.0, 0.0),
        (1e-6, 2e-6, 3e-6),
        (60.0, -55.0, math.tanh(5.0)),
        (-1e4, 1e4 - 0.5, -math.tanh(0.5)),
        (3e38, 3e38, 1.0),
        (-math.inf, 5.0, -1.0),
        (math.inf, -math.inf, math.nan),
        (math.nan, 0.0, math.nan),
    ],
)
def test_non_finite_numbers_match(additive_triton, a, b, tanh):
    queries, keys = torch.tensor([[[a]]], device=DEVICE), torch.tensor([[[b]]], device=DEVICE)
    result = additive_triton.BACKEND.scores(queries, keys, torch.tensor([10.0], device=DEVICE))
    torch.testing.assert_close(result.item(), 10 * tanh, equal_nan=True, rtol=1e-5, atol=0.0)


def test_the_kernel_works_inside_autograd(additive_triton):
    operands = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in ((2, 3, 7), (2, 5, 7), (7,))]
    actual, expected = (
        torch.autograd.grad(scores.pow(2).sum(), operands)
        for scores in (additive_scores(additive_triton.BACKEND, *operands), by_definition(*operands))
    )
    for actual_value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(actual_value, expected_value, rtol=1e-4, atol=1e-5)


def test_a_read_matches_the_definition(additive_triton, monkeypatch):
    """The kernel is built, and reads what the parts define."""
    monkeypatch.setattr(CudaAdditive, "device", DEVICE)
    definition = build(query_size=5, memory_size=11, scorer=("additive", {"hidden_size": 3}))
    attention: Any = accel.enable(copy.deepcopy(definition))
    kernel = CudaAdditive()
    kernel.build(torch.device(DEVICE))
    attention.kernels = (kernel,)
    queries, states = torch.randn(2, 3, 5, device=DEVICE), torch.randn(2, 7, 11, device=DEVICE)
    memory_mask = torch.arange(7, device=DEVICE) < torch.tensor([[7], [4]], device=DEVICE)

    def gradients(item: Any) -> tuple[Tensor, ...]:
        context = item.to(DEVICE)(queries, item.make_memory(states, memory_mask)).context
        return torch.autograd.grad(context.pow(2).sum(), list(item.parameters()))

    expected = gradients(definition)
    monkeypatch.setattr(Attention, "attend", lambda *_: pytest.fail("the definition computes"))
    actual = gradients(attention)
    for actual_value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(actual_value, expected_value, rtol=1e-4, atol=1e-5)

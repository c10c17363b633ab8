"""Additive attention with softmax in one Triton kernel, on a GPU or in Triton's interpreter on the CPU."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.accel.attention.additive import fused
from attnx.accel.attention.additive.fused import FusedAdditive
from attnx.attention.attention import Attention
from attnx.attention.factory import build
from attnx.attention.types import AttentionInputs, Memory
from attnx.ops import masked_softmax

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter computes with numpy, which warns of an overflow where a GPU just has inf.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ROWS, STEPS, POSITIONS, WIDTH, VALUES = 2, 18, 21, 3, 5


@pytest.fixture(scope="module")
def triton_fused(triton_that: Callable[[str], ModuleType]) -> Iterator[Any]:
    """The module of the kernel, with tiles so small that there are several."""
    triton_that("interprets" if DEVICE == "cpu" else "compiles")
    module: Any = importlib.import_module("attnx.accel.attention.additive.triton_fused")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._attention_kernel, "configs", [module.triton.Config({"high": 16, "wide": 16})])
        yield module


def make_operands(scale: float = 1.0) -> list[Tensor]:
    """Queries and keys of a scale, v and values."""
    torch.manual_seed(0)
    shapes = (ROWS, STEPS, WIDTH), (ROWS, POSITIONS, WIDTH), (WIDTH,), (ROWS, POSITIONS, VALUES)
    scales = scale, scale, 1.0, 1.0
    return [
        (factor * torch.randn(shape)).to(DEVICE).requires_grad_() for factor, shape in zip(scales, shapes, strict=True)
    ]


def make_mask(kind: str) -> Tensor:
    """(b, q, m): ragged rows, the second without a position; or windows, outside of which queries find nothing."""
    position, step = torch.arange(POSITIONS, device=DEVICE), torch.arange(STEPS, device=DEVICE)[:, None]
    ragged = position < torch.tensor([POSITIONS - 2, 0], device=DEVICE)[:, None, None]
    masks = {"ragged": ragged, "window": (position - step + 3).abs() <= 1, "all": torch.ones_like(position).bool()}
    return masks[kind].expand(ROWS, STEPS, POSITIONS)


def attend_by_definition(
    queries: Tensor, keys: Tensor, v: Tensor, values: Tensor, allowed_mask: Tensor, temperature: float
) -> Tensor:
    scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ v
    return masked_softmax(scores / temperature, allowed_mask) @ values


@pytest.mark.parametrize(
    ("kind", "scale", "scores_for_gradients"),
    [("ragged", 1.0, 2**24), ("window", 1.0, 7 * ROWS * POSITIONS), ("all", 0.05, 2**24), ("all", 10.0, 2**24)],
)
def test_contexts_and_gradients(
    triton_fused: Any, kind: str, scale: float, scores_for_gradients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by definition in float64, about as closely as by definition in float32, with gradients in several blocks."""
    monkeypatch.setattr(triton_fused, "MAX_SCORES_FOR_GRADIENTS", scores_for_gradients)
    operands, mask = make_operands(scale), make_mask(kind)
    exact = [operand.detach().double().requires_grad_() for operand in operands]
    weights = torch.randn(ROWS, STEPS, VALUES, device=DEVICE)

    def outcome(attend: Callable[..., Tensor], operands: list[Tensor]) -> list[Tensor]:
        contexts = attend(*operands, mask, 0.7)
        return [contexts, *torch.autograd.grad(contexts, operands, weights.to(contexts))]

    results = outcome(triton_fused.attend_online, operands), outcome(attend_by_definition, operands)
    for actual, rounded, right in zip(*results, outcome(attend_by_definition, exact), strict=True):
        allowance = 2e-6 * right.abs().max() + 3 * (rounded - right).abs().max()
        assert (actual - right).abs().max() < allowance


def test_rows_without_positions_are_zero(triton_fused: Any) -> None:
    """Contexts and gradients, exactly."""
    operands, mask = make_operands(), make_mask("ragged")
    contexts = triton_fused.attend_online(*operands, mask, 1.0)
    queries, keys, _, values = torch.autograd.grad(contexts.square().sum(), operands)
    for tensor in (contexts, queries, keys, values):
        assert tensor[0].any()
        assert not tensor[1].any()


def test_tiles_without_positions_are_skipped(triton_fused: Any) -> None:
    """NaN there would be in the contexts, were it only multiplied by a weight of 0."""
    operands = [operand.detach() for operand in make_operands()]
    mask = (torch.arange(POSITIONS, device=DEVICE) < 16).expand(ROWS, STEPS, POSITIONS)
    expected = triton_fused.attend_online(*operands, mask, 1.0)
    operands[3][:, 16:] = math.nan
    assert torch.equal(triton_fused.attend_online(*operands, mask, 1.0), expected)


def test_numbers_that_are_not_finite_spread_as_by_definition(triton_fused: Any) -> None:
    operands, mask = [operand.detach() for operand in make_operands()], make_mask("all")
    operands[0][0, 1] = math.nan
    operands[0][1, 2, 0] = math.inf
    actual, expected = (attend(*operands, mask, 1.0) for attend in (triton_fused.attend_online, attend_by_definition))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_nothing_as_large_as_the_scores_is_in_memory(
    triton_fused: Any, allocated_sizes: Callable[[Callable[[], Any]], list[int]]
) -> None:
    shapes = (1, 40, 2), (1, 40, 2), (2,), (1, 40, 2)
    operands = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes]
    mask = torch.ones(1, 1, 40, dtype=torch.bool, device=DEVICE).expand(1, 40, 40)
    sizes = allocated_sizes(lambda: triton_fused.attend_online(*operands, mask, 1.0))
    assert max(sizes) < 40 * 40 / 4


def test_gradients_have_gradients(triton_fused: Any) -> None:
    operands, mask = make_operands(), make_mask("ragged")
    actual, expected = (
        torch.autograd.grad(
            sum(
                grad.square().sum()
                for grad in torch.autograd.grad(
                    attend(*operands, mask, 1.0).square().sum(), operands, create_graph=True
                )
            ),
            operands,
        )
        for attend in (triton_fused.attend_online, attend_by_definition)
    )
    for actual_value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(actual_value, expected_value, rtol=1e-3, atol=1e-4)


def make_pair(monkeypatch: pytest.MonkeyPatch, **parts: Any) -> tuple[Any, Any]:
    """An attention with this kernel alone, and the same by definition."""
    monkeypatch.setattr(FusedAdditive, "device", DEVICE)
    definition: Any = build(query_size=5, memory_size=11, scorer=("additive", {"hidden_size": 3}), **parts).to(DEVICE)
    attention: Any = accel.enable(copy.deepcopy(definition))
    (attention.kernels,) = [(kernel,) for kernel in attention.kernels if isinstance(kernel, FusedAdditive)]
    return attention, definition


@pytest.mark.parametrize("scope", [("global", {}), ("local", {"window": 2}), ("local", {"center": "predictive"})])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_read_matches_the_definition(
    triton_fused: Any, scope: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64, but for the rounding of inputs; with a gain, which another kernel multiplies the weights by."""
    attention, definition = make_pair(monkeypatch, scope=scope)
    attention.kernels[0].build(torch.device(DEVICE))
    attention, exact = attention.to(dtype), definition.to(dtype).double()
    queries, states = torch.randn(2, 17, 5, device=DEVICE).to(dtype), torch.randn(2, 7, 11, device=DEVICE).to(dtype)
    memory_mask = torch.arange(7, device=DEVICE) < torch.tensor([[7], [4]], device=DEVICE)
    expected = exact(queries.double(), exact.make_memory(states.double(), memory_mask)).context
    monkeypatch.setattr(Attention, "attend", lambda *_: pytest.fail("the definition computes"))
    actual = attention(queries, attention.make_memory(states, memory_mask)).context
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=20 * torch.finfo(dtype).eps)


def test_other_calls_are_declined() -> None:
    """Those that need weights, contexts wider than a program's registers, and queries that would leave tiles empty."""
    attention: Any = build(query_size=5, memory_size=11, scorer=("additive", {"hidden_size": 3}))

    def is_supported(
        steps: int = fused.MIN_QUERIES, width: int = 11, dtype: Any = torch.float32, **options: Any
    ) -> bool:
        queries, keys = torch.ones(1, steps, 3, dtype=dtype), torch.ones(1, 4, 3, dtype=dtype)
        memory = Memory(keys, torch.ones(1, 4, width, dtype=dtype), torch.ones(1, 4, dtype=torch.bool), (4,))
        inputs = AttentionInputs(queries, queries, memory, torch.arange(steps), **options)
        return FusedAdditive().supports(attention.to(dtype), inputs)

    assert is_supported()
    assert is_supported(dtype=torch.bfloat16, width=fused.MAX_VALUE_WIDTH)
    assert not is_supported(dtype=torch.float64)
    assert not is_supported(need_weights=True)
    assert not is_supported(dropout_mask=torch.ones(1, fused.MIN_QUERIES, 4))
    assert not is_supported(steps=fused.MIN_QUERIES - 1)
    assert not is_supported(width=fused.MAX_VALUE_WIDTH + 1)

"""Softmax and weighted sums in C equal torch, for any mask and memory layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.accel.attention import softmax_cpu
from attnx.accel.attention.modules import FastSoftmax
from attnx.accel.attention.softmax_cpu import weighted_sum
from attnx.ops import masked_normalize

NEEDS_C = pytest.mark.skipif(softmax_cpu.library() is None, reason="no C compiler")
masked_softmax = FastSoftmax()
INF, NAN = float("inf"), float("nan")


def by_torch(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    return masked_normalize(lambda remaining: torch.softmax(remaining, dim=-1), scores, allowed_mask)


@NEEDS_C
@pytest.mark.parametrize("positions", [1, 7, 8, 16, 17, 33, 100])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("mask", ["of positions", "of all", "everything", "the same of all rows"])
@torch.no_grad()
def test_weights(mask: str, queries: int, positions: int) -> None:
    scores = 5 * torch.randn(9, queries + 2, positions)[:, 2:]
    allowed_mask = {
        "of positions": torch.rand(9, 1, positions) < 0.6,
        "of all": torch.rand(9, queries, positions) < 0.6,
        "everything": torch.ones(9, 1, 1, dtype=torch.bool),
        "the same of all rows": torch.rand(1, 1, positions) < 0.6,
    }[mask]
    assert softmax_cpu.can_sum_in_c(scores)
    result = masked_softmax(scores, allowed_mask)
    torch.testing.assert_close(result, by_torch(scores, allowed_mask), rtol=1e-5, atol=1e-7)
    assert not result[~allowed_mask.expand_as(result)].any()
    some = allowed_mask.expand_as(result).any(-1)
    torch.testing.assert_close(result.sum(-1), some.float())


@NEEDS_C
@pytest.mark.parametrize(
    "row",
    [
        [1.0, -INF, 2.0],
        [-INF] * 3,
        [INF, 0.0, 1.0],
        [NAN, 0.0, 1.0],
        [1e30, -1e30, 0.0],
        [-200.0, -1.0, -90.0],
        [3e38] * 3,
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "allowed_mask", [[True, True, True], [True, False, True], [False, True, False], [False] * 3], ids=str
)
@torch.no_grad()
def test_nan_scores_match_torch(row: list[float], allowed_mask: list[bool]) -> None:
    """As torch has it: what is not allowed is 0 even so."""
    scores, mask = torch.tensor([[row]]), torch.tensor([[allowed_mask]])
    torch.testing.assert_close(
        masked_softmax(scores, mask), by_torch(scores, mask), equal_nan=True, rtol=1e-5, atol=1e-30
    )


@NEEDS_C
@pytest.mark.parametrize("width", [1, 16, 37, 130])
@pytest.mark.parametrize("positions", [*range(10), 16, 31])
@pytest.mark.parametrize("queries", [1, 2, 5, 16])
@torch.no_grad()
def test_weighted_sums_match_torch(queries: int, positions: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values that lie in something wider, or the other way about."""
    monkeypatch.setattr(softmax_cpu, "MIN_TERMS_FOR_C", 0)
    weights = torch.randn(4, queries, positions + 1)[..., 1:]
    expected: Callable[[Tensor], Tensor] = lambda values: (weights.double() @ values.double()).float()  # noqa: E731
    wider = torch.randn(4, positions + 1, width + 3)[:, 1:, 2:-1]
    torch.testing.assert_close(weighted_sum(weights, wider), expected(wider), rtol=1e-5, atol=1e-5)
    turned = torch.randn(4, width, positions).transpose(1, 2)
    torch.testing.assert_close(weighted_sum(weights, turned), expected(turned), rtol=1e-5, atol=1e-5)


@NEEDS_C
@torch.no_grad()
def test_results_are_bit_identical_with_any_number_of_threads() -> None:
    """Of reads that are large enough for several."""
    scores, allowed_mask, values = torch.randn(700, 4, 100), torch.rand(700, 1, 100) < 0.9, torch.randn(700, 100, 40)
    assert scores.numel() > softmax_cpu.MAX_TERMS_FOR_ONE_THREAD
    threads, result = torch.get_num_threads(), []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            weights = masked_softmax(scores, allowed_mask)
            result.append((weights, weighted_sum(weights, values)))
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, *result))


CASES: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "float64": lambda: (torch.randn(2, 3, 5).double(), torch.randn(2, 5, 7).double()),
    "heads": lambda: (torch.randn(2, 4, 3, 5), torch.randn(2, 4, 5, 7)),
    "a row": lambda: (torch.randn(3, 5), torch.randn(5, 7)),
    "one memory for all": lambda: (torch.randn(2, 3, 5), torch.randn(1, 5, 7)),
    "empty": lambda: (torch.randn(2, 3, 0), torch.randn(2, 0, 7)),
}


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_other_shapes_and_types(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What C is not for is torch's."""
    monkeypatch.setattr(softmax_cpu, "MIN_TERMS_FOR_C", 0)
    weights, values = CASES[case]()
    torch.testing.assert_close(weighted_sum(weights, values), weights @ values)
    allowed_mask = torch.rand(weights.shape) < 0.6
    torch.testing.assert_close(masked_softmax(weights, allowed_mask), by_torch(weights, allowed_mask))


def test_gradients_are_computed_where_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_cpu, "MIN_TERMS_FOR_C", 0)
    scores, values = torch.randn(2, 3, 5, requires_grad=True), torch.randn(2, 5, 7, requires_grad=True)
    weighted_sum(masked_softmax(scores, torch.ones(2, 1, 5, dtype=torch.bool)), values).sum().backward()
    assert scores.grad is not None
    assert values.grad is not None


@pytest.mark.parametrize("way", ["in C", "by torch"])
@torch.no_grad()
def test_mixed_types_raise_torchs_error(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_cpu, "MIN_TERMS_FOR_C", 0 if way == "in C" else 10**9)
    wrong: tuple[Any, ...] = (torch.randn(2, 3, 5), torch.randn(2, 5, 7).double())
    with pytest.raises(RuntimeError):
        weighted_sum(*wrong)
    with pytest.raises(RuntimeError):
        weighted_sum(torch.randn(2, 3, 5), torch.randn(2, 6, 7))


def test_tracing_uses_torchs_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many reads vectorized are each read."""
    monkeypatch.setattr(softmax_cpu, "MIN_TERMS_FOR_C", 0)

    def read(scores: Tensor, values: Tensor) -> Tensor:
        return weighted_sum(masked_softmax(scores, scores > -1), values)

    scores, values = torch.randn(4, 2, 3, 5), torch.randn(4, 2, 5, 7)
    with torch.no_grad():
        item = torch.stack([read(*score) for score in zip(scores, values, strict=True)])
        torch.testing.assert_close(torch.func.vmap(read)(scores, values), item)

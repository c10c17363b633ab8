"""The kernel ``flex`` equals the definition, by torch's own definition of FlexAttention on a CPU, without gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import accel
from attnx.accel.attention import flex
from attnx.accel.attention.flex import Flex
from attnx.accel.modules import FastAttention
from attnx.attention import Memory
from attnx.attention.factory import build_attention
from attnx.attention.types import AttentionInputs

B, Q, M, WIDTH = 4, 5, 11, 34
MEMORY_MASK = torch.arange(M) < torch.tensor([M, 7, 1, 0])[:, None]
pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
]
SCOPES: list[Any] = [
    ("local", {"window": 1}),
    ("local", {"window": 1, "dilation": 2, "sinks": 1}),
    ("local", {"window": 1, "global_tokens": 2}),
    ("local", {"window": 1, "center": "predictive"}),
]
OPTIONS: list[dict[str, Any]] = [{"bias": "relative"}, {"bias": "distance"}, {"softcap": 2.0, "bias": "alibi"}]


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flex, "device", "cpu")
    monkeypatch.setattr(Flex, "build", lambda *_: None)  # there are no gradients on a CPU
    monkeypatch.setattr(flex, "MIN_QUERIES", 1)


def both(scope: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Attention by this kernel alone, and by the definition; every parameter is drawn."""
    normalizer = ("softmax", {"temperature": 0.7})
    plain: Any = build_attention("scaled", scope, normalizer, WIDTH, WIDTH, WIDTH, options)
    for parameter in plain.parameters():
        nn.init.normal_(parameter)
    fast: Any = accel.enable(copy.deepcopy(plain))
    for module in fast.modules():
        if isinstance(module, FastAttention):
            module.kernels = tuple(kernel for kernel in module.kernels if isinstance(kernel, Flex))
            assert module.kernels
    return fast, plain


def read(attention: Any, memory_of: Callable[[Any, Tensor], Memory], queries: int, **options: Any) -> Tensor:
    torch.manual_seed(0)
    drawn, states = torch.randn(B, queries, WIDTH), torch.randn(B, M, WIDTH)
    context: Tensor = attention(drawn, memory_of(attention, states), **options).context
    return context


MEMORIES: dict[str, tuple[Callable[[Any, Tensor], Memory], int]] = {
    "whole": (lambda attention, states: attention.make_memory(states), Q),
    "padded": (lambda attention, states: attention.make_memory(states, MEMORY_MASK), Q),
    "causal": (lambda attention, states: attention.make_memory(states)._replace(is_causal=True), M),
    "continued": (lambda attention, states: attention.make_memory(states, MEMORY_MASK)._replace(is_causal=True), Q),
}
CASES: list[tuple[Any, dict[str, Any], str]] = [
    *((scope, {"heads": 2}, "continued") for scope in SCOPES),
    *(("global", {"heads": 1, **options}, "continued") for options in OPTIONS),
    (SCOPES[0], {"bias": "alibi", "heads": 2}, "whole"),
    (SCOPES[0], {}, "padded"),
    (SCOPES[1], {}, "causal"),
]


@pytest.mark.parametrize(("scope", "options", "memory"), CASES, ids=str)
def test_the_kernel_matches_the_definition(
    scope: Any, options: dict[str, Any], memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With padding and an empty row, of a causal pass and of one that continues; and the kernel is what computes."""
    calls: list[AttentionInputs] = []
    call = Flex.__call__

    def record(kernel: Flex, attention: Any, inputs: AttentionInputs) -> Any:
        calls.append(inputs)
        return call(kernel, attention, inputs)

    monkeypatch.setattr(Flex, "__call__", record)
    fast, plain = both(scope, options)
    memory_of, queries = MEMORIES[memory]
    with torch.no_grad():
        steps = torch.arange(queries) + torch.tensor([[0], [3], [1], [5]])
        torch.testing.assert_close(*(read(part, memory_of, queries, steps=steps) for part in (fast, plain)))
    assert calls


def test_other_reads_are_left_to_other_kernels() -> None:
    """Weights to show, masks of the caller, and what sdpa does without a mask."""
    attention, _ = both(SCOPES[0], {})
    queries, memory = torch.ones(B, Q, WIDTH), attention.make_memory(torch.ones(B, M, WIDTH))
    inputs = AttentionInputs(queries, queries, memory, torch.arange(Q))
    kernel = attention.kernels[0]
    assert kernel.supports(attention, inputs)
    assert not kernel.supports(attention, inputs._replace(need_weights=True))
    assert not kernel.supports(attention, inputs._replace(allowed_mask=torch.ones(B, Q, M, dtype=torch.bool)))
    assert not kernel.supports(attention, inputs._replace(dropout_mask=torch.ones(B, Q, M)))
    assert not kernel.supports(both("global", {})[0], inputs)

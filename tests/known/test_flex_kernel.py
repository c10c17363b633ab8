"""The kernel ``flex`` equals the definition, by torch's own definition of FlexAttention on a CPU."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention

from attnx import accel
from attnx.accel.attention import flex, kernels
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
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # of torch's tracing
]
SCOPES: list[Any] = [
    ("local", {"window": 1}),
    ("local", {"window": 1, "dilation": 2, "sinks": 1}),
    ("local", {"window": 1, "global_tokens": 2}),
    ("local", {"window": 1, "center": "predictive"}),
]
OPTIONS: list[dict[str, Any]] = [{"bias": "relative"}, {"bias": "distance"}, {"softcap": 2.0, "bias": "alibi"}]


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch):
    monkeypatch.setattr(Flex, "device", "cpu")
    monkeypatch.setattr(Flex, "build", lambda *_: None)  # there are no gradients on a CPU
    monkeypatch.setattr(flex, "MIN_QUERIES", 1)
    monkeypatch.setattr(kernels, "_is_build_error", lambda error: False)  # no other computes in its place


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


def read(attention: Any, memory: str) -> tuple[Tensor, dict[str, Tensor]]:
    """The context, and what has gradients: queries, states and parameters."""
    torch.manual_seed(0)
    memory_of, count = MEMORIES[memory]
    steps = torch.arange(count) + torch.tensor([[0], [3], [1], [5]])
    queries, states = torch.randn(B, count, WIDTH), torch.randn(B, M, WIDTH)
    leaves = {"queries": queries, "states": states, **dict(attention.named_parameters())}
    for leaf in leaves.values():
        leaf.requires_grad_(torch.is_grad_enabled())
    return attention(queries, memory_of(attention, states), steps=steps).context, leaves


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


@pytest.fixture
def calls(monkeypatch):
    """What the kernel was asked to read."""
    made: list[AttentionInputs] = []
    call = Flex.__call__

    def record(kernel: Flex, attention: Any, inputs: AttentionInputs) -> Any:
        made.append(inputs)
        return call(kernel, attention, inputs)

    monkeypatch.setattr(Flex, "__call__", record)
    return made


def test_the_kernel_computes_without_gradients(calls):
    with torch.no_grad():
        torch.testing.assert_close(*(read(part, "padded")[0] for part in both(SCOPES[0], OPTIONS[0])))
    assert calls


@pytest.mark.parametrize(("scope", "options", "memory"), CASES, ids=str)
def test_contexts_and_gradients_match_the_definition(scope, options, memory, calls, monkeypatch):
    """With padding and an empty row, of a causal pass and of one that continues; and the kernel is what computes.

    Gradients by torch's own definition, which it refuses on a CPU and nevertheless has.
    """
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    results = []
    for part in both(scope, options):
        context, leaves = read(part, memory)
        (context * torch.arange(context.numel()).view_as(context).sin()).sum().backward()
        results.append({"context": context.detach(), **{name: leaf.grad for name, leaf in leaves.items()}})
    actual, expected = results
    assert calls
    assert None not in expected.values()
    torch.testing.assert_close(actual, expected)


def test_other_reads_are_left_to_other_kernels():
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

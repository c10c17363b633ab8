"""The kernel ``checkpointed`` equals the definition and materializes one chunk at a time."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel, registry
from attnx.accel.attention import checkpointed
from attnx.accel.attention.checkpointed import CheckpointedKernel
from attnx.accel.attention.window import WindowKernel
from attnx.attention import Memory
from attnx.attention.factory import build, build_attention
from attnx.attention.memory import concat_sources, hide_future
from tests.kernel_reads import assert_same_reads, by_kernel

B, Q, M, WIDTH, KEYS, VALUES = 4, 5, 7, 3, 11, 2
MEMORY_MASK = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]
MLP: Any = ("mlp", {"hidden_sizes": [19, 5], "depth": 3})
SCORERS = [MLP, ("mlp", {"hidden_sizes": [13], "activation": "gelu"}), "concat", "additive"]
SCOPES = ["global", ("local", {"window": 1}), ("local", {"window": 1, "center": "predictive"})]
NORMALIZERS = [
    (name, {"temperature": 0.7})
    for name in registry.names("normalizer")
    if "is_recurrent" not in registry.describe("normalizer", name).declarations
]
# Pairs in a chunk: those of three rows, of three queries and a little more, of one query, and of less than that.
FITTING = [3 * Q * M, 3 * M + 2, M, 3]
FACTORS = {"scorer": SCORERS, "scope": SCOPES, "normalizer": NORMALIZERS, "fitting": FITTING}


def both(scorer: Any, scope: Any = "global", normalizer: Any = "softmax") -> tuple[Any, Any]:
    """Attention that reads in chunks, and the same by the definition."""
    plain = build_attention(scorer, scope, normalizer, WIDTH, KEYS, VALUES, {}).eval()
    return by_kernel(plain, CheckpointedKernel), plain


def random_operands() -> tuple[Tensor, ...]:
    sizes = (B, Q, WIDTH), (B, M, KEYS), (B, M, VALUES)
    return tuple(torch.randn(size, requires_grad=True) for size in sizes)


def padded_memory(attention: Any, states: Tensor, values: Tensor) -> Memory:
    return attention.make_memory(states, MEMORY_MASK, values)


def the_same(fast: Any, plain: Any, remember: Any = padded_memory, **options: Any) -> None:
    assert_same_reads(fast, plain, random_operands(), remember, **options)


def test_by_hand(monkeypatch):
    """Scores q + ln 1, q + ln 2 and q + ln 5 weigh 1/8, 2/8 and 5/8, each query's in a chunk of its own."""
    monkeypatch.setattr(checkpointed, "pairs_per_chunk", lambda *_: 3)
    attention = build(scorer="concat", query_size=1, memory_size=1)
    for layer in (attention.scorer.query, attention.scorer.memory):
        torch.nn.init.constant_(layer.weight, 1.0)
    states = torch.tensor([[[0.0], [math.log(2)], [math.log(5)]]])
    memory = attention.make_memory(states, values=torch.tensor([[[16.0], [32.0], [-8.0]]]))
    read = attention(torch.tensor([[[7.0], [11.0]]]), memory, need_weights=True)
    torch.testing.assert_close(read.context, torch.full((1, 2, 1), (16 + 64 - 40) / 8))
    torch.testing.assert_close(read.weights, torch.tensor([[[1 / 8, 2 / 8, 5 / 8]] * 2]))
    torch.testing.assert_close(read.scores, torch.tensor([[[7.0], [11.0]]]) + states.mT)


@pytest.mark.usefixtures("float64")
def test_the_kernel_matches_the_definition(combination, monkeypatch):
    """With padding and an empty row; with weights and scores and without."""
    *parts, fitting = combination.values()
    monkeypatch.setattr(checkpointed, "pairs_per_chunk", lambda *_: fitting)
    fast, plain = both(*parts)
    for need_weights in (False, True):
        the_same(fast, plain, need_weights=need_weights)


@pytest.mark.usefixtures("float64")
def test_every_option_matches_the_definition(monkeypatch):
    """Steps by row, what the caller allows and keeps, several sources, and a memory that grows."""
    monkeypatch.setattr(checkpointed, "pairs_per_chunk", lambda *_: 3 * M + 2)
    fast, plain = both(MLP, SCOPES[2])
    the_same(fast, plain, steps=torch.tensor([[0, 1, 2, 3, 4], [2, 0, 5, 1, 1], [1, 1, 1, 1, 1], [0, 6, 7, 8, 9]]))
    narrow = torch.rand(B, Q, M) < 0.5
    for allowed_mask in (narrow, narrow[:1, :1], narrow[..., :1], torch.tensor(True), narrow & False):
        the_same(fast, plain, allowed_mask=allowed_mask, dropout_mask=torch.bernoulli(torch.full((B, Q, M), 0.5)) * 2)
    the_same(fast, plain, lambda *parts: hide_future(padded_memory(*parts), torch.tensor([0, 2, 3, 5, 6])))

    def two(attention: Any, states: Tensor, values: Tensor) -> Memory:
        cuts = slice(0, 3), slice(3, M)
        return concat_sources(
            *(attention.make_memory(states[:, cut], MEMORY_MASK[:, cut], values[:, cut]) for cut in cuts)
        )

    the_same(fast, plain, two)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("fitting", [3 * M + 2, 3])
def test_gradients(monkeypatch, fitting):
    """Of the first order and the second, of the scorer's parameters as of what is read."""
    monkeypatch.setattr(checkpointed, "pairs_per_chunk", lambda *_: fitting)
    attention, _ = both(("mlp", {"hidden_sizes": [5, 3]}), SCOPES[2])
    queries, states, values = random_operands()
    given_to_it = (queries[1:3], states[1:3], values[1:3], *attention.parameters())

    def context(queries: Tensor, states: Tensor, values: Tensor, *_: Tensor) -> Tensor:
        return attention(queries, attention.make_memory(states, MEMORY_MASK[1:3], values)).context

    assert torch.autograd.gradcheck(context, given_to_it, fast_mode=True)
    assert fitting < M or torch.autograd.gradgradcheck(context, given_to_it, fast_mode=True)


@pytest.mark.usefixtures("float64")
def test_a_memory_may_be_read_twice_in_one_loss(monkeypatch):
    """Two reads of one memory, and two backward passes through one of them, add up."""
    monkeypatch.setattr(checkpointed, "pairs_per_chunk", lambda *_: M)
    fast, plain = both(MLP)
    queries, *parts = random_operands()
    gradients = []
    for attention in (fast, plain):
        memory = padded_memory(attention, *parts)
        context = attention(attention(queries, memory).context[..., :1].expand(-1, -1, WIDTH), memory).context
        first = torch.autograd.grad(context.sum(), (queries, *attention.scorer.parameters()), retain_graph=True)
        second = torch.autograd.grad(context.pow(2).sum(), (queries, *attention.scorer.parameters()))
        gradients.append((*first, *second))
    torch.testing.assert_close(*gradients)


def test_results_are_reproducible(monkeypatch):
    """To the last digit; dropout, drawn before, is drawn once."""
    monkeypatch.setattr(checkpointed, "pairs_per_chunk", lambda *_: M)
    attention = accel.enable(build_attention(MLP, "global", "softmax", WIDTH, KEYS, VALUES, {"dropout": 0.5}))
    queries, *parts = random_operands()
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        context = attention(queries, padded_memory(attention, *parts)).context
        runs.append((context, *torch.autograd.grad(context.sum(), (queries, *attention.parameters()))))
    for first, two in zip(*runs, strict=True):
        assert torch.equal(first, two)


def test_the_option_is_in_mebibytes():
    """At most chunk * 2^20 bytes: an ``mlp`` of 19 + 5 units takes 3 * 24 + 8 numbers of 4 bytes for each pair."""
    attention: Any = accel.enable(
        build(scorer=("mlp", {"hidden_sizes": [19, 5]}), query_size=WIDTH, memory_size=KEYS, chunk_mib=3)
    )
    (kernel,) = attention.kernels
    fitting = 3 * 2**20 // (80 * 4)  # 9830
    for positions, expected in ((983, False), (984, True)):  # 10 queries of 983 are as many pairs
        memory = attention.make_memory(torch.zeros(1, positions, KEYS))
        calls: list[Any] = []
        attention.kernels = (
            type("Spy", (CheckpointedKernel,), {"supports": lambda _, *read, to=calls: to.extend(read)})(),
        )
        attention(torch.zeros(1, 10, WIDTH), memory)
        assert kernel.supports(*calls) is expected
        assert (10 * positions > fitting) is expected


@pytest.mark.parametrize("scope", ["global", "local"])
def test_at_most_one_tile_is_materialized(allocated_sizes, scope):
    """Forwards and backwards, wherever ``window`` gathers, too; the definition makes all pairs times the width."""
    rows, steps, positions, width = 2, 211, 307, 37
    attention: Any = accel.enable(
        build_attention(("mlp", {"hidden_sizes": [width]}), scope, "softmax", WIDTH, KEYS, VALUES, {"chunk_mib": 1})
    )
    queries, states = torch.randn(rows, steps, WIDTH), torch.randn(rows, positions, KEYS)
    sizes = {}
    kernels = attention.kernels
    assert [type(kernel) for kernel in kernels] == (
        [WindowKernel, CheckpointedKernel] if scope == "local" else [CheckpointedKernel]
    )
    for way in (kernels, ()):
        attention.kernels = way
        sizes[way] = max(
            allocated_sizes(lambda: attention(queries, attention.make_memory(states)).context.sum().backward())
        )
    assert sizes[()] == rows * steps * positions * width
    assert 4 * sizes[kernels] < 2**20

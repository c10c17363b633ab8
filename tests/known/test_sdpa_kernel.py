"""The kernel ``sdpa`` equals the definition and materializes no scores."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel, registry
from attnx.accel.attention.sdpa import Sdpa
from attnx.attention import Memory
from attnx.attention.attention import Attention
from attnx.attention.factory import build, build_attention
from attnx.attention.memory import hide_future
from tests.kernel_reads import assert_same_reads, by_kernel

B, Q, M, WIDTH = 4, 3, 7, 5
MEMORY_MASK = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]
SCOPES = ["global", ("local", {"window": 1})]


def both(scorer: Any = "dot", scope: Any = "global") -> tuple[Any, Any]:
    """Attention that may use kernels, and the same by the definition."""
    plain = build_attention(scorer, scope, "softmax", WIDTH, WIDTH, WIDTH, {})
    return by_kernel(plain, Sdpa), plain


def random_operands(*sizes: tuple[int, int, int]) -> list[Tensor]:
    return [torch.randn(size, requires_grad=True) for size in sizes or [(B, Q, WIDTH), (B, M, WIDTH), (B, M, WIDTH)]]


def the_same(fast: Any, plain: Any, tensors: list[Tensor], memory_mask: Tensor | None, **options: Any) -> None:
    def remember(attention: Any, states: Tensor, values: Tensor) -> Memory:
        return attention.make_memory(states, memory_mask, values)

    assert_same_reads(fast, plain, tensors, remember, **options)


def test_by_hand():
    """Scores ln 1, ln 2 and ln 5 weigh 1/8, 2/8 and 5/8; at T = 1/2, 1, 4 and 25 of 30."""
    states = torch.tensor([[[0.0], [math.log(2)], [math.log(5)]]])
    values = torch.tensor([[[16.0], [32.0], [-8.0]]])
    for temperature, context in ((1.0, (16 + 64 - 40) / 8), (0.5, (16 + 128 - 200) / 30)):
        attention: Any = accel.enable(
            build(scorer="dot", normalizer=("softmax", {"temperature": temperature}), query_size=1, memory_size=1)
        )
        assert [type(kernel) for kernel in attention.kernels if kernel.is_for(states.device)] == [Sdpa]
        read = attention(torch.ones(1, 1, 1), attention.make_memory(states, values=values))
        torch.testing.assert_close(read.context, torch.tensor([[[context]]]))


@pytest.mark.parametrize("name", [registry.registered_name("scorer", scorer) for scorer in Sdpa.scorers])
def test_supported_scorers_are_inner_products(name):
    """All else that they do is in the queries and keys which they make: the kernel relies on it."""
    scorer = registry.build("scorer", name, query_size=WIDTH, memory_size=WIDTH)
    queries, keys = torch.randn(B, Q, WIDTH), torch.randn(B, M, WIDTH)
    torch.testing.assert_close(scorer.score(queries, keys), torch.einsum("bqk, bmk -> bqm", queries, keys))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("scorer", ["dot", "cosine"])
def test_the_kernel_matches_the_definition(scorer, scope):
    """With padding and an empty row, with all present, with wider values, and with a memory that grows."""
    fast, plain = both(scorer, scope)
    for memory_mask in (MEMORY_MASK, None, MEMORY_MASK & False):
        the_same(fast, plain, random_operands(), memory_mask)
        the_same(fast, plain, random_operands((B, Q, WIDTH), (B, M, WIDTH), (B, M, 2 * WIDTH)), memory_mask)
    narrow = torch.rand(B, Q, M) < 0.5
    for allowed_mask in (narrow, narrow[:1, :1], narrow & False):
        the_same(fast, plain, random_operands(), MEMORY_MASK, allowed_mask=allowed_mask)
    single = random_operands((B, 1, WIDTH), (B, M, WIDTH), (B, M, WIDTH))
    the_same(fast, plain, single, MEMORY_MASK, steps=torch.tensor([[3], [2], [0], [5]]))


def test_unsupported_reads_are_left_to_the_definition(monkeypatch):
    """Weights to show or to drop, values that are narrower or far wider, gradients of wide queries."""
    fast, _ = both()
    queries, states, values = (tensor.detach() for tensor in random_operands())
    calls: list[bool] = []
    monkeypatch.setattr(Sdpa, "__call__", lambda *_: calls.append(True))

    def is_supported(
        queries: Tensor = queries, values: Tensor = values, states: Tensor = states, **kwargs: Any
    ) -> bool:
        calls.clear()
        fast(queries, fast.make_memory(states, values=values), **kwargs)
        return bool(calls)

    assert is_supported()
    assert not is_supported(need_weights=True)
    assert not is_supported(dropout_mask=torch.ones(B, Q, M))
    assert is_supported(values=values.repeat(1, 1, 2))
    assert not is_supported(values=values.repeat(1, 1, 3))
    assert not is_supported(values=values[..., 1:])
    assert not is_supported(values=values[:, :0], states=states[:, :0])
    fast: Any = accel.enable(build(scorer="dot", query_size=257, memory_size=257))
    wide = torch.ones(1, M, 257)
    for steps, expected in ((13, True), (67, False), (193, True)):
        assert is_supported(torch.ones(1, steps, 257), wide, wide) is expected
        with torch.no_grad():
            assert is_supported(torch.ones(1, steps, 257), wide, wide)


@pytest.mark.usefixtures("float64")
def test_vmap_matches_the_definition():
    """Vectorized over rows, of which one has no positions, attention is the definition's."""
    fast, plain = both()
    queries, states, values = (tensor.detach() for tensor in random_operands())

    def read_row(queries: Tensor, states: Tensor, values: Tensor, memory_mask: Tensor) -> Tensor:
        memory = fast.make_memory(states[None], memory_mask[None], values[None])
        return fast(queries[None], memory).context[0]

    result = torch.vmap(read_row)(queries, states, values, MEMORY_MASK)
    torch.testing.assert_close(result, plain(queries, plain.make_memory(states, MEMORY_MASK, values)).context)


@pytest.mark.parametrize("heads", [1, 3])
def test_a_causal_pass_makes_no_mask(heads, allocated_sizes, monkeypatch):
    """Neither of pairs nor for each head, with heads that share a call and with one; and the numbers are the same."""
    monkeypatch.setattr(Attention, "scope_mask", None)
    steps, width = 193, 12
    choices = "scaled" if heads == 1 else "cosine", "global", "softmax"
    attention: Any = accel.enable(build_attention(*choices, width, width, width, {"heads": heads}))
    states = torch.randn(1, steps, width, requires_grad=True)

    def read() -> Tensor:
        context: Tensor = attention(states, attention.make_memory(states)._replace(is_causal=True)).context
        context.sum().backward()
        return context

    assert max(allocated_sizes(read)) < steps * steps
    monkeypatch.undo()
    accel.disable(attention)
    memory = attention.make_memory(states)
    torch.testing.assert_close(read(), attention(states, hide_future(memory, torch.arange(steps) + 1)).context)


def test_scores_are_never_materialized(allocated_sizes):
    """Neither forwards nor backwards is there a tensor of one element for each query and position, but for a mask."""
    steps, positions = 193, 211
    fast, plain = both()
    tensors = random_operands((1, steps, WIDTH), (1, positions, WIDTH), (1, positions, WIDTH))

    def read(attention: Any) -> None:
        queries, states, values = tensors
        attention(queries, attention.make_memory(states, values=values)).context.sum().backward()

    assert max(allocated_sizes(lambda: read(plain))) == steps * positions
    assert max(allocated_sizes(lambda: read(fast))) == positions * WIDTH


@pytest.mark.parametrize("memory_mask", [None, MEMORY_MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_heads_share_a_mask(memory_mask, is_causal, monkeypatch):
    """Context and gradients are the definition's, and no mask is saved for each head."""
    heads, rows, steps, width = 4, B, M, 12
    plain: Any = build_attention("scaled", "global", "softmax", width, width, width, {"heads": heads})
    fast: Any = accel.enable(copy.deepcopy(plain))
    monkeypatch.setattr(fast, "fold_heads", None)
    states, grad_context = torch.randn(rows, steps, width, requires_grad=True), torch.randn(rows, steps, width)
    results, saved = [], []
    for attention in (plain, fast):
        memory = attention.make_memory(states, memory_mask)
        memory = memory._replace(is_causal=is_causal)
        with torch.autograd.graph.saved_tensors_hooks(lambda part: saved.append(part.shape) or part, lambda part: part):
            saved.clear()
            context = attention(states, memory).context
        results.append([context, *torch.autograd.grad(context, [states, *attention.parameters()], grad_context)])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)
    assert not [shape for shape in saved if shape[-2:] == (steps, steps) and shape[:-2].numel() > rows]

"""The kernel ``window`` equals the definition and computes only the window."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.accel.attention.window import WindowKernel
from attnx.attention import Memory
from attnx.attention.factory import build_attention
from attnx.attention.memory import hide_future
from attnx.attention.scorers.dot import Dot
from attnx.attention.types import AttentionInputs
from tests.kernel_reads import assert_same_reads

B, Q, M, WIDTH, KEYS, VALUES = 5, 11, 13, 5, 3, 2
MEMORY_MASK = torch.arange(M) < torch.tensor([13, 7, 2, 1, 0])[:, None]


class Always(WindowKernel):
    """Gathers also where it does not pay."""

    def supports(self, *_: Any) -> bool:
        return True


def both(scorer: Any, normalizer: Any = "softmax", options: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Attention that gathers every read, and the same by the definition."""
    sizes = (WIDTH, KEYS, VALUES)
    plain = build_attention(scorer, ("local", {"window": 2, **(options or {})}), normalizer, *sizes, {}).eval()
    fast: Any = accel.enable(copy.deepcopy(plain))
    fast.kernels = (Always(),)
    return fast, plain


def random_operands(steps: int = Q, positions: int = M) -> tuple[Tensor, ...]:
    sizes = (B, steps, WIDTH), (B, positions, KEYS), (B, positions, VALUES)
    return tuple(torch.randn(size, requires_grad=True) for size in sizes)


def the_same(fast: Any, plain: Any, remember: Any, step_count: int = Q, positions: int = M, **options: Any) -> None:
    assert_same_reads(fast, plain, random_operands(step_count, positions), remember, **options)


def padded_memory(attention: Any, states: Tensor, values: Tensor) -> Memory:
    return attention.make_memory(states, MEMORY_MASK, values)


def test_by_hand():
    """At step 3 a window of 1 holds positions 2 to 4; scores ln 1, ln 3 and ln 4 weigh 1/8, 3/8 and 4/8."""
    attention: Any = accel.enable(build_attention("dot", ("local", {"window": 1}), "softmax", 1, 1, 1, {}))
    attention.kernels = (Always(),)
    states = torch.tensor([[[9.0], [9.0], [0.0], [math.log(3)], [math.log(4)], [9.0], [9.0]]])
    values = torch.tensor([[[1e9], [1e9], [8.0], [16.0], [-8.0], [1e9], [1e9]]])
    read = attention(torch.ones(1, 1, 1), attention.make_memory(states, values=values), steps=torch.tensor([3]))
    torch.testing.assert_close(read.context, torch.tensor([[[(8 + 48 - 32) / 8]]]))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("window", [0, 1, 5, 6, 17])
@pytest.mark.parametrize("center", ["monotonic", "predictive"])
def test_windows_of_any_size_match_the_definition(window, center):
    """From one position to more than there are, none where there are none, and one query of each row at its step."""
    fast, plain = both("additive", options={"center": center, "window": window})
    the_same(fast, plain, padded_memory)
    the_same(fast, plain, padded_memory, step_count=1, steps=torch.tensor([[3], [2], [0], [5], [12]]))
    the_same(fast, plain, lambda attention, states, values: attention.make_memory(states, values=values), positions=0)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("options", [{"sinks": 3}, {"dilation": 2}, {"sinks": 1, "dilation": 3}, {"sinks": 19}])
@pytest.mark.parametrize("center", ["monotonic", "predictive"])
def test_sinks_and_gaps_match_the_definition(options, center):
    """Also where a window reaches the sinks, and where there are more sinks than positions."""
    fast, plain = both("additive", options={"center": center, **options})
    the_same(fast, plain, padded_memory)
    the_same(fast, plain, lambda *parts: hide_future(padded_memory(*parts), torch.arange(Q) % 5))


def test_long_reads_with_sinks_and_global_tokens_match_the_definition():
    """The kernel leaves queries that read everything to the definition."""
    for options in ({"sinks": 3}, {"dilation": 5}, {"global_tokens": 2}):
        attention, queries, memory = long_read("dot", 4001, **options)
        assert type(attention.kernels[0]) is WindowKernel
        fast = attention(queries, memory).context
        accel.disable(attention)
        torch.testing.assert_close(fast, attention(queries, memory).context)


@pytest.mark.usefixtures("float64")
def test_present_may_have_holes_and_differ_by_query():
    """A row's length counts what is there, and positions in the window that are not there are not read."""
    fast, plain = both("additive", "sparsemax", {"center": "predictive"})
    holes = torch.rand(B, M) < 0.6
    the_same(fast, plain, lambda attention, states, values: attention.make_memory(states, holes, values))
    first = torch.arange(Q) % 5
    the_same(fast, plain, lambda *parts: hide_future(padded_memory(*parts), first))


def long_read(scorer: str, positions: int, **kwargs: Any) -> tuple[Any, Tensor, Memory]:
    attention: Any = accel.enable(
        build_attention(scorer, ("local", {"window": 1, **kwargs}), "softmax", WIDTH, KEYS, VALUES, {})
    )
    states, values = torch.randn(2, positions, KEYS), torch.randn(2, positions, VALUES)
    memory_mask = torch.arange(positions) < torch.tensor([[positions], [positions - 101]])
    return attention, torch.randn(2, 97, WIDTH), attention.make_memory(states, memory_mask, values)


@pytest.mark.parametrize("center", ["monotonic", "predictive"])
@pytest.mark.parametrize("scorer", ["dot", "additive"])
def test_computation_does_not_grow_with_the_memory(scorer, center, allocated_sizes):
    """Twice the memory, and as many elements as before in all that any operation makes."""
    counts = []
    for positions in (4001, 8009):
        attention, queries, memory = long_read(scorer, positions, center=center)
        assert type(attention.kernels[0]) is WindowKernel
        with torch.no_grad():
            sizes = allocated_sizes(lambda read=attention, overrides=queries, of=memory: read(overrides, of))
        counts.append(sum(sizes))
    assert counts[0] == counts[1]


def test_gradients_have_the_size_of_the_memory(allocated_sizes):
    attention, queries, memory = long_read("additive", 4001)
    memory = memory._replace(keys=memory.keys.detach().requires_grad_(), values=memory.values.requires_grad_())
    sizes = allocated_sizes(lambda: attention(queries, memory).context.sum().backward())
    assert max(sizes) == memory.keys.numel()


def test_unsupported_reads_are_left_to_other_kernels():
    """Weights and scores to show, scorers that look back, and memories that are not long beside their windows."""
    attention, queries, memory = long_read("additive", 997)
    scores = attention(queries, memory, need_weights=True).scores
    torch.testing.assert_close(scores, attention.scorer.score(attention.scorer.project_queries(queries), memory.keys))
    calls = []

    class Spy(WindowKernel):
        def supports(self, *args: Any) -> bool:
            calls.append(super().supports(*args))
            return calls[-1]

    for scorer, positions, expected in [
        ("additive", 997, True),
        ("additive", 7, False),  # fewer than four windows of 3
        ("dot", 9973, True),
        ("dot", 139, False),  # fewer than 48 of them
        ("coverage", 997, False),
    ]:
        attention, queries, memory = long_read(scorer, positions + 101)
        attention.kernels = (Spy(),)
        read = memory._replace(**cut(memory, positions))
        attention(queries, read, history=attention.init_history(read))
        assert calls.pop() is expected


def cut(memory: Memory, positions: int) -> dict[str, Any]:
    """The first positions of a memory."""
    shorter = {name: getattr(memory, name)[:, :positions] for name in ("keys", "values", "mask")}
    return {**shorter, "source_sizes": (positions,)}


@pytest.mark.parametrize(("query_rows", "memory_rows"), [(1, B), (B, 1)])
def test_one_row_for_all_is_left_to_the_definition(query_rows, memory_rows):
    fast, plain = both("additive")
    queries, states = torch.randn(query_rows, Q, WIDTH), torch.randn(memory_rows, M, KEYS)
    contexts = [attention(queries, attention.make_memory(states)).context for attention in (fast, plain)]
    assert contexts[0].shape == (B, Q, KEYS)
    torch.testing.assert_close(*contexts)


def test_scores_of_positions_are_left_to_the_definition():
    """In a window they would be counted from its start."""

    class Positions(Dot):
        is_positional = True

        def score(self, queries: Tensor, keys: Tensor) -> Tensor:
            return super().score(queries, keys) + torch.arange(keys.shape[-2])

    scope, sizes = ("local", {"window": 1}), (KEYS, KEYS, KEYS)
    states, queries = torch.randn(B, 331, KEYS), torch.randn(B, 331, KEYS)
    for scorer, is_used in ((Dot(), True), (Positions(), False)):
        fast: Any = accel.enable(build_attention(scorer, scope, "softmax", *sizes, {}).eval())
        fast.kernels = (WindowKernel(),)
        memory = fast.make_memory(states)
        inputs = AttentionInputs(queries, queries, memory, torch.arange(331), None, None, None, need_weights=False)
        assert WindowKernel().supports(fast, inputs) is is_used


def test_a_causal_pass_makes_no_tensor_of_pairs(allocated_sizes):
    """The numbers are the definition's, and memory grows with the length alone."""
    length, width = 257, 64
    plain: Any = build_attention("scaled", ("local", {"window": 1}), "softmax", width, width, width, {})
    fast: Any = accel.enable(copy.deepcopy(plain))
    states, memory_mask = torch.randn(1, length, width), torch.arange(length)[None] < length - 3

    def read(attention: Any, mask: Tensor | None = None) -> Tensor:
        memory = attention.make_memory(states, mask)._replace(is_causal=True)
        return attention(states, memory, steps=torch.arange(length)).context

    for mask in (None, memory_mask):
        torch.testing.assert_close(read(fast, mask), read(plain, mask))
        assert max(allocated_sizes(lambda: read(fast, mask))) < length * length  # noqa: B023

"""Biases by position and the bound ``attention.softcap``, worked by hand, with the scores of any scorer."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import UserError, accel, compose
from attnx.accel.attention.sdpa import Sdpa
from attnx.attention import build
from attnx.attention.biases.alibi import Alibi
from attnx.attention.biases.distance import Distance
from attnx.attention.biases.relative import Relative
from attnx.attention.memory import concat_sources
from attnx.models.resolve import DataSizes, resolve_model

# A part of each bias whose numbers differ at each distance.
NAMES = ["alibi", "distance", "relative"]


def fill(bias: Any) -> None:
    """Numbers that differ at each distance."""
    for weight in bias.parameters():
        torch.nn.init.normal_(weight)


def test_alibi():
    """Section 3: of 4 heads the slopes are 2^-2, 2^-4, 2^-6 and 2^-8; a distance of 3 costs three of them."""
    for head, slope in enumerate([1 / 4, 1 / 16, 1 / 64, 1 / 256]):
        biases = Alibi(head, heads=4)(torch.zeros(1, 1, 13), torch.tensor([[[3, 0, -1]]]))
        assert biases.tolist() == [[[-3 * slope, 0, -slope]]]


def test_the_buckets_of_the_paper():
    """32 buckets up to 128: 16 a direction, 8 of one distance, then 8 that multiply by 16^(1/8) = sqrt(2) each.

    8 sqrt(2) = 11.3, 16, 22.6, 32, 45.3, 64 and 90.5 are where they begin: the first whole distances at or after.
    """
    bias = Distance()
    earlier = bias.buckets[128:].tolist()
    assert earlier[:8] == list(range(8))
    assert [earlier.index(bucket) for bucket in range(8, 16)] == [8, 12, 16, 23, 32, 46, 64, 91]
    assert earlier[-1] == 15
    assert bias.buckets[:128].flip(0).tolist() == [16 + bucket for bucket in earlier[1:]]


def test_distance():
    """4 buckets, two a direction: of distance 0, earlier, no later one of distance 0, later."""
    bias = Distance(buckets=4, max_distance=3)
    with torch.no_grad():
        bias.weight.copy_(torch.tensor([2.0, 3.0, 5.0, 7.0]))
    distances = torch.tensor([[[97, 2, 1, 0, -1, -2, -97]]])
    assert bias(torch.zeros(1, 1, 13), distances).tolist() == [[[3, 3, 3, 2, 7, 7, 7]]]


@pytest.mark.parametrize("options", [{"buckets": 2}, {"buckets": 7}, {"buckets": 32, "max_distance": 8}], ids=str)
def test_buckets_that_cannot_be(options):
    with pytest.raises(UserError, match=r"^bias\.\w+=\d+: .*choose \d"):
        Distance(**options)


def test_relative():
    """Width 4, so that the product is halved; vectors of distances -1, 0 and 1, and longer ones clipped."""
    bias = Relative(query_size=4, max_distance=1)
    with torch.no_grad():
        bias.weight.copy_(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, -1.0]]))
    biases = bias(torch.tensor([[[2.0, 3.0, 5.0, 7.0]]]), torch.tensor([[[13, 1, 0, -1, -97]]]))
    assert biases.tolist() == [[[-7 / 2, -7 / 2, (3 + 5) / 2, 2 / 2, 2 / 2]]]


def test_shaw_equation_4():
    """q . (k + w) / sqrt(d) is ``scaled`` with ``relative``."""
    attention: Any = build(scorer="scaled", bias=("relative", {"max_distance": 2}), query_size=5, memory_size=5)
    queries, keys = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    scores = attention(queries, attention.make_memory(keys), need_weights=True).scores
    for step in range(3):
        for position in range(7):
            vector = attention.bias.weight[min(max(step - position, -2), 2) + 2]
            expected = (queries[:, step] * (keys[:, position] + vector)).sum(-1) / math.sqrt(5)
            torch.testing.assert_close(scores[:, step, position], expected)


def test_a_bias_moves_the_weights():
    """One head, scores of 0: alibi's weights are exp(-|t - s| / 256), normalized. The step is 256."""
    attention: Any = build(scorer="dot", bias="alibi", query_size=1, memory_size=1)
    memory = attention.make_memory(torch.zeros(1, 3, 1))
    weights = attention(torch.ones(1, 1, 1), memory, steps=torch.tensor([256]), need_weights=True).weights
    shares = [math.exp(-distance / 256) for distance in (256, 255, 254)]
    torch.testing.assert_close(weights[0, 0], torch.tensor(shares) / sum(shares))


@pytest.mark.parametrize("bias", NAMES)
def test_positions_count_within_each_source(bias):
    """The first position of the second source is as far away as that of the first."""
    attention: Any = build(scorer="dot", bias=bias, query_size=5, memory_size=5)
    fill(attention.bias)
    first, second = torch.zeros(2, 3, 5), torch.zeros(2, 4, 5)
    both = concat_sources(attention.make_memory(first), attention.make_memory(second))
    scores = attention(torch.randn(2, 3, 5), both, need_weights=True).scores
    torch.testing.assert_close(scores[..., :3], scores[..., 3:6])


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("bias", ["alibi", "relative", None])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 1)], ids=str)
def test_one_step_may_stand_for_all_queries(shape, bias, heads):
    """As in a loop, which has one query at a time: the numbers are those of the step written out."""
    torch.manual_seed(0)
    attention = build(query_size=12, memory_size=12, scope="local", bias=bias, heads=heads)
    memory, queries = attention.make_memory(torch.randn(2, 7, 12)), torch.randn(2, 5, 12)
    expected = attention(queries, memory, steps=torch.full((2, 5), 3)).context
    torch.testing.assert_close(attention(queries, memory, steps=torch.full(shape, 3)).context, expected)


def test_heads_have_their_own_slopes():
    """Equal keys: the scores of two heads are their biases alone, and -|t - s| times 2^-4 and 2^-8."""
    attention: Any = build(scorer="dot", bias="alibi", heads=2, query_size=4, memory_size=4)
    scores = attention(torch.zeros(1, 2, 4), attention.make_memory(torch.zeros(1, 3, 4)), need_weights=True).scores
    distances = torch.tensor([[0.0, 1, 2], [1, 0, 1]])
    torch.testing.assert_close(scores[0], torch.stack([-distances / 16, -distances / 256]))


@pytest.mark.parametrize("bias", NAMES)
def test_sdpa_adds_the_bias(bias):
    """Without gradients it is torch's float mask; padded, empty and growing rows included."""
    plain: Any = build(
        scorer="scaled", normalizer=("softmax", {"temperature": 0.5}), bias=bias, query_size=5, memory_size=5
    )
    fill(plain.bias)
    fast: Any = accel.enable(copy.deepcopy(plain))
    assert any(isinstance(kernel, Sdpa) for kernel in fast.kernels)
    memory_mask = torch.arange(7) < torch.tensor([7, 4, 1, 0])[:, None]
    queries, states = torch.randn(4, 3, 5), torch.randn(4, 7, 5)
    with torch.no_grad():
        expected, actual = (part(queries, part.make_memory(states, memory_mask)).context for part in (plain, fast))
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("bias", NAMES)
def test_a_transformer_without_encodings_knows_positions_by_its_bias(bias):
    """Without one, the source's symbols in another order give the same; with one they do not."""

    def last_logits(*words: str) -> list[Tensor]:
        config = compose(["model=transformer", "model.hidden_size=8", "model.layers=1", "attention.heads=2", *words])
        config["model"] |= {"position_encoding": "none", "dropout": 0.0}
        model: Any = resolve_model(config).build(DataSizes(source_symbols=23, target_symbols=17)).eval()
        for layer in (*model.encoder.layers, *model.decoder.layers):
            for head in layer.self_attention.heads:
                fill(head.bias or torch.nn.Module())
        source = torch.tensor([[3, 5, 7], [3, 7, 5]])
        return [*model(source, source > 0, torch.tensor([[1], [1]])).logits[:, -1]]

    torch.testing.assert_close(*last_logits())
    assert not torch.allclose(*last_logits(f"model.self_bias={bias}"))
    assert not torch.allclose(*last_logits(f"attention.bias={bias}"))


# Scores 0 and 1; half of them has a tanh of 0 and tanh(1/2) = (e - 1) / (e + 1).
QUERIES, STATES = torch.ones(1, 1, 1), torch.tensor([[[0.0], [1.0], [1e4], [-1e4]]])
CAPPED = torch.tensor([0.0, 2 * (math.e - 1) / (math.e + 1), 2.0, -2.0])


def test_scores_are_bounded_and_the_bias_is_added_after():
    """ALiBi of one head takes 1/256 a step: the query of step 0 is 0 to 3 away."""
    for bias, expected in ((None, CAPPED), ("alibi", CAPPED - torch.arange(4) / 256)):
        attention = build(scorer="dot", query_size=1, memory_size=1, softcap=2.0, bias=bias)
        read = attention(QUERIES, attention.make_memory(STATES), need_weights=True)
        torch.testing.assert_close(read.scores[0, 0], expected)
        torch.testing.assert_close(read.weights[0, 0], torch.softmax(expected, -1))


@pytest.mark.parametrize("scorer", ["dot", "cosine"])
@pytest.mark.parametrize("heads", [1, 2])
def test_the_kernel_that_cannot_bound_scores_is_left_out(scorer, heads):
    """SDPA has no soft cap: it computes without one, and hands over with one."""
    sizes = {"query_size": 6, "memory_size": 6, "scorer": scorer, "heads": heads}
    queries, states = 9 * torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    plain = accel.enable(build(**sizes))
    assert any(type(kernel) is Sdpa for module in plain.modules() for kernel in getattr(module, "kernels", ()))
    attention = build(**sizes, softcap=0.5)
    expected = attention(queries, attention.make_memory(states)).context
    accel.enable(attention)
    torch.testing.assert_close(attention(queries, attention.make_memory(states)).context, expected)

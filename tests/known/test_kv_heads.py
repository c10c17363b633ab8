"""Heads that share keys and values, ``attention.kv_heads``, and norms of queries and keys, ``attention.qk_norm``."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.attention.factory import build
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.scorers.multiplicative import Multiplicative
from attnx.errors import UserError
from attnx.laws.model import SOURCE, SOURCE_MASK, ModelLaws
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import AttentionSite, TransformerParts
from attnx.nn.targets.symbols import Symbols

LN3 = math.log(3)
WIDTH, HEADS = 12, 4


def test_two_heads_read_one_head_of_keys_by_hand():
    """Keys 0 and ln 3, values 4 and 8. The heads' queries are 1 and -1: weights 1/4 and 3/4, and 3/4 and 1/4."""
    attention = build(scorer="dot", heads=2, kv_heads=1, query_size=2, memory_size=2, values_size=2)
    with torch.no_grad():
        attention.query.weight.copy_(torch.eye(2))
        attention.out.weight.copy_(torch.eye(2))
        attention.keys.weight.copy_(torch.tensor([[1.0, 0.0]]))
        attention.values.weight.copy_(torch.tensor([[0.0, 1.0]]))
    memory = attention.make_memory(torch.tensor([[[0.0, 4.0], [LN3, 8.0]]]))
    read = attention(torch.tensor([[[1.0, -1.0]]]), memory, need_weights=True)
    assert memory.keys.shape == memory.values.shape == (1, 1, 2, 1)
    torch.testing.assert_close(read.weights, torch.tensor([[[[1 / 4, 3 / 4]], [[3 / 4, 1 / 4]]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[7.0, 5.0]]]))


def with_repeated_keys(shared: MultiHeadAttention, **options: Any) -> MultiHeadAttention:
    """The same attention with a copy of the shared keys and values for each head."""
    full = build(query_size=WIDTH, memory_size=WIDTH, heads=HEADS, **options)
    weights = shared.state_dict()
    for name in ("keys.weight", "values.weight"):
        groups = weights[name].unflatten(0, (shared.kv_heads, -1))
        weights[name] = groups.repeat_interleave(shared.group_size, 0).flatten(0, 1)
    full.load_state_dict(weights)
    return full


FACTORS: dict[str, Any] = {
    "options": [
        {"scorer": "scaled"},
        {"scorer": "dot", "softcap": 2.0},
        {"scorer": "cosine", "qk_norm": "rms"},
        {"scorer": "scaled", "bias": "alibi"},
        {"scorer": "biased_general", "normalizer": "softmax_with_sink"},
        {"scorer": "gmm"},
    ],
    "kv_heads": [1, 2],
    "scope": ["global", ("local", {"window": 1, "center": "predictive"})],
    "is_fast": [False, True],
}


def test_shared_keys_are_equal_keys(combination):
    """As if each head had a copy: contexts, weights and gradients, causally, under masks, and by kernels."""
    options, kv_heads, scope, is_fast = combination.values()
    torch.manual_seed(0)
    shared = build(query_size=WIDTH, memory_size=WIDTH, heads=HEADS, kv_heads=kv_heads, scope=scope, **options)
    full = with_repeated_keys(shared, scope=scope, **options)
    if is_fast:
        accel.enable(shared)
    queries, states, allowed_mask = torch.randn(3, 7, WIDTH), torch.randn(3, 7, WIDTH), torch.rand(3, 7, 7) < 0.8
    memory_mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    is_causal = options["scorer"] != "gmm"  # a recurrent scorer reads memories that do not grow
    for need_weights, mask in ((False, None), (True, allowed_mask), (False, allowed_mask)):
        for steps in (None, torch.arange(21).view(3, 7) % 7):
            outcomes = []
            for attention in (shared, full):
                inputs = queries.clone().requires_grad_(), states.clone().requires_grad_()
                memory = attention.make_memory(inputs[1], memory_mask)._replace(is_causal=is_causal)
                read = attention(inputs[0], memory, mask, steps, need_weights=need_weights)
                read.context.square().sum().backward()
                outcomes.append([read.context, read.weights, *(tensor.grad for tensor in inputs)])
            for actual, expected in zip(*outcomes, strict=True):
                torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-5)


def test_one_row_of_queries_reads_every_memory():
    shared = build(scorer="scaled", query_size=WIDTH, memory_size=WIDTH, heads=HEADS, kv_heads=2)
    queries, states = torch.randn(1, 3, WIDTH), torch.randn(5, 7, WIDTH)
    one = shared(queries, shared.make_memory(states), need_weights=True)
    many = shared(queries.expand(5, -1, -1), shared.make_memory(states), need_weights=True)
    torch.testing.assert_close((one.context, one.weights), (many.context, many.weights))
    assert shared(queries[:, :0], shared.make_memory(states[:1])).context.shape == (1, 0, WIDTH)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_transformer_decodes_with_a_smaller_cache(kv_heads):
    """Steps give what one pass gives; keys and values of a position take kv_heads / heads of the bytes."""
    options = TransformerConfig("decoder_only", WIDTH * 2, layers=2, position_encoding="rotary", dropout=0.0)
    attention = {"heads": HEADS, "kv_heads": kv_heads, "qk_norm": "rms"}
    parts = TransformerParts(AttentionSite(scope="history"), attention=attention)
    model = Transformer(Symbols(23), Symbols(17), options, parts).eval()
    ModelLaws(model).steps_equal_the_pass()
    for memory in model.init_state(SOURCE, SOURCE_MASK).self_memories:
        assert memory.keys[:, :, :7].shape == memory.values[:, :, :7].shape == (2, kv_heads, 7, 6)


def test_rms_norm_by_hand():
    """(3, 4) has a mean square of 12.5; times weights of 2 and 1."""
    attention = build(scorer="dot", heads=2, qk_norm="rms", query_size=4, memory_size=4)
    with torch.no_grad():
        attention.key_norm.weight.copy_(torch.tensor([2.0, 1.0]))
        attention.keys.weight.copy_(torch.eye(4))
    keys = attention.make_memory(torch.tensor([[[3.0, 4.0, 0.0, 0.0]]])).keys
    expected = torch.tensor([6.0, 4.0]) / math.sqrt(12.5)
    torch.testing.assert_close(keys[0, :, 0], torch.stack([expected, torch.zeros(2)]))


def test_l2_norm_by_hand():
    """Cosines times the root of the width, which is learned: (3, 4) and (4, 3) have 24 / 25."""
    attention = build(scorer="dot", heads=2, qk_norm="l2", query_size=4, memory_size=4)
    torch.nn.init.eye_(attention.query.weight)
    torch.nn.init.eye_(attention.keys.weight)
    memory = attention.make_memory(torch.tensor([[[3.0, 4.0, 5.0, 0.0]]]))
    read = attention(torch.tensor([[[4.0, 3.0, -7.0, 0.0]]]), memory, need_weights=True)
    torch.testing.assert_close(read.scores.flatten(), math.sqrt(2) * torch.tensor([24 / 25, -1.0]))
    assert attention.query_norm.scale.requires_grad


@pytest.mark.parametrize("qk_norm", ["l2", "rms"])
def test_norms_come_before_rotation(qk_norm):
    """The rotation of a norm with weights is not the norm of a rotation: keys are rotated last."""
    attention = build(scorer="dot", heads=1, query_size=4, memory_size=4, kv_heads=1)
    assert not isinstance(attention, MultiHeadAttention)
    attention = build(scorer="dot", heads=2, query_size=8, memory_size=8, qk_norm=qk_norm)
    states, angles = torch.randn(1, 3, 8), torch.randn(1, 3, 2)
    rotation = torch.stack([angles.cos(), angles.sin()])
    plain, rotated = (attention.make_memory(states, rotation=given).keys for given in (None, rotation))
    torch.testing.assert_close(rotated, attnx_rotated(plain, rotation))


def attnx_rotated(vectors: Tensor, rotation: Tensor) -> Tensor:
    """(b, h, m, k): the first and second halves are real and imaginary parts, as rotary positions have them."""
    (cos, sin), (real, imaginary) = rotation[:, :, None], vectors.chunk(2, -1)
    return torch.cat([real * cos - imaginary * sin, real * sin + imaginary * cos], -1)


def test_a_scorer_given_as_an_instance_is_checked_when_it_is_built():
    with pytest.raises(UserError, match="scorer=multiplicative maps them by parameters of each head"):
        build(scorer=Multiplicative(3, 3), heads=4, kv_heads=2, query_size=WIDTH, memory_size=WIDTH)

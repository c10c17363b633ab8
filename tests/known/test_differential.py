"""Differential attention, ``attention=differential``, by hand: Ye et al. 2024, section 2.1."""

import math
from typing import Any

import pytest
import torch

from attnx import UserError, accel, registry
from attnx.config.compose import compose
from attnx.laws.model import INPUTS, SOURCE, SOURCE_MASK, ModelLaws
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import TransformerParts
from attnx.nn.targets.symbols import Symbols

LN3 = math.log(3)


def differential(heads: int, query: int, memory: int, values: int, layer: int = 0, **options: Any) -> Any:
    defaults = {"scorer": "dot", "scope": "global", "normalizer": "softmax"}
    parts = {kind: options.pop(kind, name) for kind, name in defaults.items()}
    sizes = {"query_size": query, "memory_size": memory, "values_size": values, "layer": layer}
    return registry.build("attention", ("differential", {"heads": heads, **options}), **parts, **sizes)


def test_a_head_by_hand():
    """Maps of 1/4, 3/4 and 1/2, 1/2, less 0.2 of the second; values 4 and 8 give 7 - 0.2 * 6 = 5.8, normalized to 1."""
    attention = differential(1, 2, 2, 1)
    with torch.no_grad():
        attention.difference.share.zero_()  # exp(0) - exp(0) + 0.2
        attention.query.weight.copy_(torch.eye(2))
        attention.keys.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        attention.values.weight.fill_(1.0)
        attention.out.weight.fill_(1.0)
    memory = attention.make_memory(torch.tensor([[[0.0, 5.0], [LN3, 7.0]]]), values=torch.tensor([[[4.0], [8.0]]]))
    read = attention(torch.ones(1, 1, 2), memory, need_weights=True)
    expected = torch.tensor([1 / 4 - 0.2 / 2, 3 / 4 - 0.2 / 2])
    torch.testing.assert_close(read.weights, expected.view(1, 1, 1, 2))
    normalized = 5.8 / math.sqrt(5.8**2 + 1e-5)
    torch.testing.assert_close(read.context, torch.tensor([[[0.8 * normalized]]]))
    assert not attention.is_distribution


@pytest.mark.parametrize("part", [{"scorer": "coverage"}, {"normalizer": "reinforced"}])
def test_parts_that_read_earlier_steps_or_sample_are_refused(part):
    with pytest.raises(UserError, match="a part reads earlier steps or samples positions; use others"):
        differential(2, 5, 8, 12, **part)


@pytest.mark.parametrize(("memory", "values"), [(6, 8), (8, 9)])
def test_heads_divide_both_widths(memory, values):
    with pytest.raises(UserError, match=f"the widths of the memory and of the values, {memory} and {values}, do not"):
        differential(2, 5, memory, values)


@pytest.mark.parametrize(("layer", "decay"), [(0, 1.0), (1, math.exp(-0.3)), (11, math.exp(-3.3))])
def test_the_share_starts_by_depth(layer, decay):
    start = 0.8 - 0.6 * decay
    attention = differential(2, 8, 8, 8, layer)
    torch.nn.init.zeros_(attention.difference.share)
    torch.testing.assert_close(attention.difference.subtracted_share(), torch.tensor(start))
    with torch.no_grad():  # a_1 . b_1 = 2 ln 3 and a_2 . b_2 = 0
        attention.difference.share[0] = torch.tensor([[LN3, LN3], [1.0, 1.0]])
    torch.testing.assert_close(attention.difference.subtracted_share(), torch.tensor(9 - 1 + start))


@pytest.mark.parametrize("scorer", ["scaled", "additive", "cosine"])
def test_it_is_the_difference_of_two_attentions(scorer):
    """Each over the first or second halves of queries and keys, with the same values; accel computes the same."""
    attention = differential(2, 5, 8, 12, scorer=scorer, qk_norm="rms")
    queries, states, values = torch.randn(3, 4, 5), torch.randn(3, 7, 8), torch.randn(3, 7, 12)
    memory_mask = torch.arange(7) < torch.tensor([[7], [3], [1]])
    memory = attention.make_memory(states, memory_mask, values)
    assert memory.keys.shape[1] == 4
    assert memory.values.shape == (3, 2, 7, 6)
    read = attention(queries, memory, need_weights=True)
    prepared = attention.query_norm((queries @ attention.query.weight.T).view(3, 4, 4, 2).transpose(1, 2))
    share, contexts = attention.difference.subtracted_share(), []
    for head in range(2):
        weights = []
        for index in (2 * head, 2 * head + 1):
            part = attention.heads[index]
            scores = part.scorer.score(part.scorer.project_queries(prepared[:, index]), memory.keys[:, index])
            weights.append(torch.softmax(scores.masked_fill(~memory_mask[:, None], -torch.inf), -1))
        difference = weights[0] - share * weights[1]
        torch.testing.assert_close(read.weights[:, head], difference)
        contexts.append(0.8 * attention.difference.norm(difference @ memory.values[:, head]))
    torch.testing.assert_close(read.context, torch.cat(contexts, -1) @ attention.out.weight.T)
    accel.enable(attention)
    fast = attention(queries, attention.make_memory(states, memory_mask, values))
    torch.testing.assert_close(fast.context, read.context)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("position_encoding", "layers", "hops"),
    [
        ("rotary", ["differential"], 1),
        ("learned", ["differential", "standard", "none"], 1),
        ("rotary", ["standard"], 2),
    ],
)
def test_a_transformer_takes_any_attention(position_encoding, layers, hops):
    """Steps give what one pass gives, and every parameter learns."""
    choices = tuple(LayerChoice("attention", name) for name in layers)
    options = TransformerConfig("decoder_only", 16, layers=3, position_encoding=position_encoding, dropout=0.0)
    parts = TransformerParts(layer_choices=choices, attention={"heads": 2, "hops": hops})
    model = Transformer(Symbols(23), Symbols(17), options, parts).eval()
    attending = sum(layers[index % len(layers)] != "none" for index in range(3))
    assert model(SOURCE, SOURCE_MASK, INPUTS, need_weights=True).weights.shape[:3] == (2, 2 * attending, 4)
    ModelLaws(model).steps_equal_the_pass()
    ModelLaws(model).every_parameter_has_a_gradient()


@pytest.mark.parametrize("words", ["model=transformer scorer=scaled attention.heads=1", "model.feed=next", ""])
def test_models_compose_with_it(words):
    assert compose(["attention=differential", *words.split()])["attention"]["name"] == "differential"

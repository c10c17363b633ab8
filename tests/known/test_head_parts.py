"""Heads that are made of different choices: ``attention.head_scorers``, ``head_scopes`` and ``head_normalizers``."""

from typing import Any

import pytest
import torch

from attnx import accel
from attnx.attention.factory import build
from attnx.config.compose import compose
from attnx.laws.model import ModelLaws
from attnx.laws.small import small_config
from attnx.models.resolve import resolve_model
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import AttentionSite, TransformerParts
from attnx.nn.targets.symbols import Symbols
from tests.refusal import refused

WIDTH, HEADS = 12, 4
WINDOW = ("local", {"window": 0})
LISTED_SCORERS = {"name": "standard", "heads": 2, "head_scorers": ["dot", "scaled"]}
LISTS: list[dict[str, Any]] = [
    {"head_scopes": [WINDOW, "global"]},
    {"head_normalizers": ["softmax", ("sigmoid", {"bias": -1.0})]},
    {"head_scorers": ["dot", ("additive", {"hidden_size": 7}), "cosine", "scaled"]},
    {"head_scorers": ["additive", "dot"], "head_scopes": [WINDOW, WINDOW, "global", "global"], "bias": "alibi"},
]


def test_every_second_head_reads_a_window():
    """The first and third read their own step alone, with a weight of 1; the others all five positions."""
    attention: Any = build(scorer="dot", heads=HEADS, query_size=WIDTH, memory_size=WIDTH, **LISTS[0])
    memory = attention.make_memory(torch.randn(2, 5, WIDTH))
    weights = attention(torch.zeros(2, 5, WIDTH), memory, need_weights=True).weights
    expected = torch.stack([torch.eye(5), torch.full((5, 5), 1 / 5)] * 2)
    torch.testing.assert_close(weights, expected.expand(2, -1, -1, -1))


@pytest.mark.parametrize("lists", LISTS, ids=lambda lists: "-".join(lists))
@pytest.mark.parametrize("is_fast", [False, True], ids=["definition", "accel"])
def test_each_head_is_an_attention_of_its_own_parts(lists, is_fast):
    """Whose keys may have a width of their own."""
    attention: Any = build(scorer="scaled", heads=HEADS, query_size=WIDTH, memory_size=WIDTH, **lists)
    queries, states = torch.randn(2, 3, WIDTH), torch.randn(2, 7, WIDTH)
    memory_mask = torch.arange(7) < torch.tensor([[7], [4]])
    projected = [
        linear(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for linear, rows in ((attention.query, queries), (attention.keys, states), (attention.values, states))
    ]
    alone = []
    for head, query, keys, values in zip(attention.heads, *(part.unbind(1) for part in projected), strict=True):
        alone.append(head(query, head.make_memory(keys, memory_mask, values)).context)
    if is_fast:
        accel.enable(attention)
    context = attention(queries, attention.make_memory(states, memory_mask)).context
    torch.testing.assert_close(context, attention.out(torch.cat(alone, -1)), rtol=1e-4, atol=1e-5)
    assert attention.is_distribution == ("head_normalizers" not in lists)


def test_the_sources_are_those_of_the_scope():
    attention: Any = build(scope="history", heads=2, query_size=4, memory_size=4, head_scopes=["local", "global"])
    assert [head.scope.sources for head in attention.heads] == [("decoder",)] * 2
    with refused("attention.head_scopes=history is over [decoder], but heads share the sources of scope, [encoder]..."):
        build(heads=2, query_size=4, memory_size=4, head_scopes=["history", "global"])


def test_the_listed_scorers_count_in_place_of_the_chosen_one():
    """``coverage`` alone would read the weights of earlier steps, which no transformer has, and ``gmm`` no keys."""
    resolved: Any = resolve_model(small_config(scorer="coverage", attention=LISTED_SCORERS))
    assert resolved.plan.schedule == "run_then_attend"
    resolve_model(small_config(scorer="coverage", attention=LISTED_SCORERS, model={"name": "transformer"}))
    model = {"name": "seq2seq", "keys_from": "inputs", "values_from": "states"}
    resolved = resolve_model(small_config(scorer="gmm", attention=LISTED_SCORERS, model=model))
    assert resolved.keys_from == "inputs"
    assert "model.keys_from" not in resolved.ineffective


def test_a_site_given_by_name_is_causal_as_one_with_its_options_is():
    history = ("history", {"sources": ["decoder"]})
    assert [AttentionSite(scope=scope).is_causal for scope in ("history", history, "global")] == [True, True, False]


@pytest.mark.usefixtures("float64")
def test_a_transformer_decodes_as_it_trains():
    options = TransformerConfig("decoder_only", 16, layers=2, position_encoding="rotary", dropout=0.0)
    listed = [("local", {"window": 1, "sinks": 1}), "global"]
    parts = TransformerParts(AttentionSite(scope="history"), attention={"heads": 2, "head_scopes": listed})
    ModelLaws(Transformer(Symbols(23), Symbols(17), options, parts).eval()).steps_equal_the_pass()


@pytest.mark.parametrize(
    "words",
    [
        "attention.heads=4 attention.head_scopes=[local,global]",
        "attention.heads=2 attention.head_scorers=[additive,dot] attention.head_normalizers=[softmax,sparsemax]",
        "attention.heads=2 scope=history attention.head_scopes=[{name:local,window:5},global]",
        "model=transformer scorer=scaled attention.heads=4 attention.head_scopes=[local,global]",
        "attention.heads=2 scope=history attention.head_scopes=[history,local]",
        "task=classification model=classifier attention.heads=2 "
        "attention.head_scopes=[{name:local,center:predictive},global]",
        "output=copy attention.heads=2 attention.head_normalizers=[softmax,sparsemax]",
    ],
)
def test_a_list_composes(words):
    compose(words.split())

"""A pointer by hand: the equation of the paper, and constraints."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from attnx.config.compose import compose
from attnx.models.resolve import DataSizes, resolve_model
from attnx.problems.pointing.pointer.constraints import allowed_next

SMALL = ["recipe=pointer", "task=pointing", "model.embedding_dim=1", "encoder.hidden_size=1", "decoder.hidden_size=1"]


def softmax(scores: list[float]) -> list[float]:
    total = sum(map(math.exp, scores))
    return [math.exp(score) / total for score in scores]


def test_the_equations_of_the_recipe():
    """Vinyals et al. 2015, section 2.3: u_j = v tanh(W e_j + U d_i), p = softmax(u); d_i reads the point last taken.

    Everything has width 1. A recurrence without memory, h = tanh(x), makes e_j = tanh(x_j); the first d is that of the
    start symbol, 0.3, the second that of the point taken first, 0.7. The end is one more thing to point to, at 0.2.
    """
    cells = ["encoder.cell=rnn", "decoder.cell=rnn", "scorer.hidden_size=1", "model.bridge=zeros"]
    config = compose([*SMALL, *cells, "task.problem=sorting"])
    model: Any = resolve_model(config).build(DataSizes(source_features=1, target_symbols=4 + 5))
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    torch.nn.init.constant_(model.source_encoder.embedding.weight, 1)
    for recurrent in (model.source_encoder.encoder.recurrent, model.decoder):
        torch.nn.init.constant_(recurrent.layers[0].weight_ih_l0, 1)
    torch.nn.init.constant_(model.attention.scorer.query.weight, 3)
    torch.nn.init.constant_(model.attention.scorer.memory.weight, -2)
    torch.nn.init.constant_(model.attention.scorer.v, 1.5)
    torch.nn.init.constant_(model.start, 0.3)
    torch.nn.init.constant_(model.end, 0.2)
    points = [-0.4, 0.7, 1.1]
    source, source_mask = torch.tensor(points)[None, :, None], torch.ones(1, 3, dtype=torch.bool)
    actual = model(source, source_mask, torch.tensor([[1, 4 + 1]])).logits[0]
    keys = [0.2, *map(math.tanh, points)]
    for step, read in enumerate((0.3, 0.7)):
        expected = softmax([1.5 * math.tanh(-2 * key + 3 * math.tanh(read)) for key in keys])
        probabilities = torch.softmax(actual[step], -1).tolist()
        assert probabilities == pytest.approx([0, 0, expected[0], 0, *expected[1:]], abs=1e-6)


def test_the_recipe_cites_its_paper():
    text = (Path(__file__).parents[2] / "conf" / "recipe" / "pointer.yaml").read_text(encoding="utf-8")
    assert "https://arxiv.org/abs/1506.03134" in text
    config = compose(["recipe=pointer", "task=pointing"])
    assert [config[kind]["name"] for kind in ("model", "scorer", "scope", "normalizer")] == [
        "pointer",
        "additive",
        "global",
        "softmax",
    ]
    assert list(config["query"]) == ["current_state"]


# Of five positions the last is padding. What was pointed to, in this order; then what may follow, 5 being the end.
FOLLOWING = {
    "any": {(): {0, 1, 2, 3, 5}, (2, 2): {0, 1, 2, 3, 5}, (0, 1, 2, 3): {0, 1, 2, 3, 5}},
    "distinct": {(): {0, 1, 2, 3, 5}, (2, 0): {1, 3, 5}, (0, 1, 2, 3): {5}},
    "permutation": {(): {0, 1, 2, 3}, (2, 0): {1, 3}, (0, 1, 2, 3): {5}},
    "ring": {(): {0, 1, 2, 3}, (2, 0): {1, 3}, (2, 0, 3): {1, 2}, (2, 0, 3, 1): {2}, (2, 0, 3, 2): {5}},
}


@pytest.mark.parametrize(("rule", "prefix"), [(rule, prefix) for rule, value in FOLLOWING.items() for prefix in value])
def test_the_constraint_allows_the_next_symbols(rule, prefix):
    counts = torch.tensor([[prefix.count(place) for place in range(5)]])
    first = torch.tensor([[bool(prefix) and place == prefix[0] for place in range(5)]])
    allowed_mask = allowed_next(rule, counts, first, torch.arange(5)[None] < 4)
    assert set(allowed_mask[0].nonzero()[:, 0].tolist()) == FOLLOWING[rule][prefix]


@pytest.mark.parametrize("rule", FOLLOWING)
def test_something_may_always_follow(rule):
    """Also where there is nothing to point to."""
    none = torch.zeros(1, 0, dtype=torch.bool)
    assert allowed_next(rule, none.long(), none, none).tolist() == [[True]]


@pytest.mark.parametrize("overrides", ["query=previous_state", "query=[token,current_state]", "scorer=dot"])
def test_other_parts_can_point(overrides):
    config = compose(["recipe=pointer", "task=pointing", *overrides.split()])
    assert str(resolve_model(config).plan).startswith("run, then attend")


def test_a_scorer_with_history_forces_steps():
    config = compose(["recipe=pointer", "task=pointing", "scorer=coverage"])
    summary = resolve_model(config).summary()
    assert summary["schedule"].startswith("step by step: the scorer reads the weights of earlier steps")

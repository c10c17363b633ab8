"""A small model learns locations, and its gates distinguish the sentences of different names."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, PAD, STOP
from attnx.decoding.greedy import Greedy
from attnx.models.resolve import DataSizes, resolve_model
from tests.conftest import node

NAMES, PLACES = range(5, 8), range(8, 13)
SENTENCES, STEPS = 3, 300


def draw(rows: int, chance: random.Random) -> Batch:
    """Stories of "name place ." and then a name: where is it? Two or three sentences, the last that names it counts."""
    sources, answers = [], []
    for _ in range(rows):
        story_facts = [(chance.choice(NAMES), chance.choice(PLACES)) for _ in range(chance.randint(2, SENTENCES))]
        queried_name = chance.choice(story_facts)[0]
        sources.append([symbol for name, place in story_facts for symbol in (name, place, STOP)] + [queried_name])
        answers.append(dict(story_facts)[queried_name])
    source = torch.full((rows, max(map(len, sources))), PAD)
    for row, symbols in enumerate(sources):
        source[row, : len(symbols)] = torch.tensor(symbols)
    target = torch.tensor([[answer, EOS] for answer in answers])
    number = torch.arange(rows)
    return Batch(source, source != PAD, target, target != PAD, number, torch.zeros_like(number))


def train_model(train: Callable[..., Any]) -> Any:
    config = {
        "scorer": node("scorer", "dot"),
        "scope": node("scope", "global"),
        "normalizer": node("normalizer", "softmax"),
        "attention": node("attention", "standard"),
        "model": node("model", "entity", hidden_size=48, num_slots=6),
    }
    torch.manual_seed(1)
    model: Any = resolve_model(config).build(DataSizes(source_symbols=PLACES.stop, target_symbols=PLACES.stop))
    chance = random.Random(2)
    return train(model, lambda: draw(64, chance), STEPS)


def test_the_model_learns_locations(train):
    model, batch = train_model(train), draw(300, random.Random(3))
    decoded = Greedy()(model, batch.source, batch.source_mask, need_weights=True)
    right = decoded.sequences[:, 0, 0] == batch.target[:, 0]
    assert right.float().mean() > 0.9
    assert decoded.weights is not None
    assert gate_difference(decoded.weights[:, 0, :, 0], batch.source) > 0.2


def gate_difference(weights: Tensor, source: Tensor) -> float:
    """How far a slot's mean gate (b, j, s) at a stop differs from name to name, the symbol two before; the most."""
    at_stop = source[:, 2:] == STOP
    gates, names = weights.mT[:, 2:][at_stop], source[:, :-2][at_stop]
    means = torch.stack([gates[names == name].mean(0) for name in NAMES])
    return float((means.max(0).values - means.min(0).values).max())

"""Co-attention learns to compare two texts, which a net over both in one sequence does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, SEP
from attnx.laws.small import SOURCE_SYMBOLS, small_config, small_model

FIRST_WORD, LENGTH, STEPS = 6, 5, 300


def draw(rows: int, chance: torch.Generator) -> Batch:
    """Two texts of five different words each; the label is whether they share a word, one at most, at any place."""
    words = FIRST_WORD + torch.rand(rows, SOURCE_SYMBOLS - FIRST_WORD, generator=chance).argsort(1)
    first, second = words[:, :LENGTH], words[:, LENGTH : 2 * LENGTH]
    number, shares_word = torch.arange(rows), torch.randint(2, (rows,), generator=chance)
    source_place, place = torch.randint(LENGTH, (2, rows), generator=chance)
    second[number, place] = torch.where(shares_word == 1, first[number, source_place], second[number, place])
    source = torch.cat([first, torch.full((rows, 1), SEP), second], 1)
    target = torch.stack([4 + shares_word, torch.full((rows,), EOS)], 1)
    return Batch(source, source > 0, target, target > 0, number, torch.zeros_like(number))


def share_right(train: Callable[..., Any], encoder: dict[str, Any]) -> float:
    torch.manual_seed(1)
    parts = {"scorer": "tanh_dot", "query": {"self_attentive": {"size": 16}}}
    model = {"name": "classifier", "embedding_dim": 16}
    readout = {"inputs": ["context"], "tanh": False}
    built = small_model(small_config(model=model, encoder=encoder, readout=readout, **parts))
    chance = torch.Generator().manual_seed(2)
    train(built, lambda: draw(64, chance), STEPS, lr=0.02)
    batch = draw(1000, chance)
    with torch.no_grad():
        logits = built(batch.source, batch.source_mask, batch.target[:, :1]).logits
    return float((built.target.predict(logits)[:, 0].argmax(-1) == batch.target[:, 0]).float().mean())


def test_texts_that_read_each_other_are_compared(train):
    """The recurrent encoder has as many parameters and as many steps; half of the labels are right by chance."""
    assert share_right(train, {"name": "co_attention", "hidden_size": 16}) > 0.95
    assert share_right(train, {"name": "recurrent", "hidden_size": 24}) < 0.6

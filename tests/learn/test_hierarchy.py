"""Hierarchical attention learns which words are in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, STOP
from attnx.laws.small import small_config, small_model

MARK, FIRST_COLOR, FIRST_FILLER = 5, 6, 10
COLORS, SENTENCES, WORDS, STEPS = 4, 4, 4, 300


def draw(rows: int, chance: torch.Generator) -> Batch:
    """Texts of four sentences, each with a color and fillers in any order, one with a mark: the label is its color."""
    words = torch.randint(FIRST_FILLER, 23, (rows, SENTENCES, WORDS), generator=chance)
    colors = torch.rand(rows, COLORS, generator=chance).argsort(1)
    marked = torch.randint(SENTENCES, (rows,), generator=chance)
    words[:, :, 0] = FIRST_COLOR + colors
    words[torch.arange(rows), marked, 1] = MARK
    order = torch.rand(words.shape, generator=chance).argsort(-1)
    ends = torch.full((rows, SENTENCES, 1), STOP)
    source = torch.cat([words.gather(-1, order), ends], -1).flatten(1)
    labels = 4 + colors[torch.arange(rows), marked]
    target = torch.stack([labels, torch.full_like(labels, EOS)], 1)
    number = torch.arange(rows)
    return Batch(source, source > 0, target, target > 0, number, torch.zeros_like(number))


def share_right(train: Callable[..., Any], encoder: dict[str, Any]) -> float:
    torch.manual_seed(1)
    parts = {"scorer": "tanh_dot", "query": {"self_attentive": {"size": 16}}}
    model = {"name": "classifier", "embedding_dim": 16}
    readout = {"inputs": ["context"], "tanh": False}
    built = small_model(small_config(model=model, encoder=encoder, readout=readout, **parts))
    chance = torch.Generator().manual_seed(2)
    train(built, lambda: draw(64, chance), STEPS)
    batch = draw(300, chance)
    logits = built(batch.source, batch.source_mask, batch.target[:, :1]).logits
    return float((built.target.predict(logits)[:, 0].argmax(-1) == batch.target[:, 0]).float().mean())


def test_an_encoder_of_sentences_binds_a_mark_and_a_color(train):
    assert share_right(train, {"name": "hierarchical", "hidden_size": 12, "query_size": 16}) > 0.95

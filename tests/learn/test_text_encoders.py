"""Encoders of texts learn what one recurrent net does not: which words share a sentence, and whether two texts do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, SEP, STOP
from attnx.laws.small import SOURCE_SYMBOLS, small_config, small_model

MARK, FIRST_WORD, COLORS, SENTENCES, WORDS, STEPS = 5, 6, 4, 4, 4, 300
LENGTH = 5  # of one of two texts


@pytest.fixture
def share_right(train):
    """The share of right labels of new texts, by a classifier with this encoder that was trained on others."""

    def measure(
        draw: Callable[[int, torch.Generator], Batch], encoder: dict[str, Any], rows: int, lr: float = 0.01
    ) -> float:
        torch.manual_seed(1)
        parts = {"scorer": "tanh_dot", "query": {"self_attentive": {"size": 16}}}
        model = {"name": "classifier", "embedding_dim": 16}
        readout = {"inputs": ["context"], "tanh": False}
        built = small_model(small_config(model=model, encoder=encoder, readout=readout, **parts))
        chance = torch.Generator().manual_seed(2)
        train(built, lambda: draw(64, chance), STEPS, lr=lr)
        batch = draw(rows, chance)
        with torch.no_grad():
            logits = built(batch.source, batch.source_mask, batch.target[:, :1]).logits
        return float((built.target.predict(logits)[:, 0].argmax(-1) == batch.target[:, 0]).float().mean())

    return measure


def labeled(source: torch.Tensor, labels: torch.Tensor) -> Batch:
    """A batch of texts, each with the number of its label."""
    target = torch.stack([4 + labels, torch.full_like(labels, EOS)], 1)
    number = torch.arange(len(source))
    return Batch(source, source > 0, target, target > 0, number, torch.zeros_like(number))


def draw_sentences(rows: int, chance: torch.Generator) -> Batch:
    """Texts of four sentences, each with a color and fillers in any order, one with a mark: the label is its color."""
    words = torch.randint(FIRST_WORD + COLORS, 23, (rows, SENTENCES, WORDS), generator=chance)
    colors = torch.rand(rows, COLORS, generator=chance).argsort(1)
    marked = torch.randint(SENTENCES, (rows,), generator=chance)
    words[:, :, 0] = FIRST_WORD + colors
    words[torch.arange(rows), marked, 1] = MARK
    order = torch.rand(words.shape, generator=chance).argsort(-1)
    ends = torch.full((rows, SENTENCES, 1), STOP)
    source = torch.cat([words.gather(-1, order), ends], -1).flatten(1)
    return labeled(source, colors[torch.arange(rows), marked])


def draw_pairs(rows: int, chance: torch.Generator) -> Batch:
    """Two texts of five different words each; the label is whether they share a word, one at most, at any place."""
    words = FIRST_WORD + torch.rand(rows, SOURCE_SYMBOLS - FIRST_WORD, generator=chance).argsort(1)
    first, second = words[:, :LENGTH], words[:, LENGTH : 2 * LENGTH]
    number, shares_word = torch.arange(rows), torch.randint(2, (rows,), generator=chance)
    source_place, place = torch.randint(LENGTH, (2, rows), generator=chance)
    second[number, place] = torch.where(shares_word == 1, first[number, source_place], second[number, place])
    return labeled(torch.cat([first, torch.full((rows, 1), SEP), second], 1), shares_word)


def test_an_encoder_of_sentences_binds_a_mark_and_a_color(share_right):
    encoder = {"name": "hierarchical", "hidden_size": 12, "query_size": 16}
    assert share_right(draw_sentences, encoder, rows=300) > 0.95


def test_texts_that_read_each_other_are_compared(share_right):
    """The recurrent encoder has as many parameters and as many steps; half of the labels are right by chance."""
    assert share_right(draw_pairs, {"name": "co_attention", "hidden_size": 16}, rows=1000, lr=0.02) > 0.95
    assert share_right(draw_pairs, {"name": "recurrent", "hidden_size": 24}, rows=1000, lr=0.02) < 0.6

"""A small network learns from its past: it continues a sine of any phase and a repeating text."""

import math
from typing import Any

import torch
from torch import Tensor

from attnx import registry
from attnx.data.batches import Batch
from attnx.data.vocabulary import BOS, EOS
from attnx.decoding.greedy import Greedy
from attnx.models.resolve import DataSizes, resolve_model
from attnx.tasks.loss import token_loss
from tests.conftest import node

PERIOD, PAST, AHEAD = 8, 12, 6


PARTS = {
    "scorer": node("scorer", "additive", hidden_size=16),
    "scope": node("scope", "history"),
    "normalizer": node("normalizer", "softmax"),
    "attention": node("attention", "standard"),
    "decoder": node("decoder", "recurrent", cell="gru", hidden_size=24),
    "readout": node("readout", "joint"),
}
SINE = {
    **PARTS,
    "query": {"current_state": {}},
    "model": node("model", "history", embedding_dim=8),
    "task": {"name": "forecasting", **registry.check("task", "forecasting", {"horizon": AHEAD})},
}
TEXT = {
    **PARTS,
    "query": {"previous_state": {}},
    "model": node("model", "seq2seq", embedding_dim=8, feed="now", bridge="learned"),
    "encoder": node("encoder", "recurrent"),
    "task": node("task", "language_model"),
}


SYMBOLS = DataSizes(source_symbols=7, target_symbols=7)


def sines(rows: int, chance: torch.Generator) -> Batch:
    """Of one period, each begun somewhere else."""
    phase = torch.rand(rows, 1, generator=chance) * 2 * math.pi
    wave = torch.sin(2 * math.pi / PERIOD * torch.arange(PAST + AHEAD) + phase)[..., None]
    present = torch.ones(rows, PAST + AHEAD, dtype=torch.bool)
    index = torch.arange(rows)
    return Batch(wave[:, :PAST], present[:, :PAST], wave[:, PAST:], present[:, PAST:], index, torch.zeros_like(index))


def build_model(config: dict[str, Any], sizes: DataSizes) -> Any:
    torch.manual_seed(7)
    return resolve_model(config).build(sizes)


def test_the_model_continues_a_sine(train):
    """The mean, 0, would lose 1/2; no step that it forecasts is shown to it."""
    chance = torch.Generator().manual_seed(11)
    sizes = DataSizes(source_features=1, target_features=1)
    model = train(build_model(SINE, sizes), lambda: sines(32, chance), steps=150)
    batch = sines(100, torch.Generator().manual_seed(13))
    decoded = Greedy()(model, batch.source, batch.source_mask)
    assert (decoded.sequences[:, 0] - batch.target).square().mean() < 0.05


def test_the_model_continues_a_repeating_text(train):
    """Symbols 4 to 6 over and over, begun anywhere: the first is one of three, and nothing else is uncertain."""
    chance = torch.Generator().manual_seed(11)

    def texts(rows: int = 16) -> Batch:
        begun = torch.randint(3, (rows, 1), generator=chance)
        target = torch.cat([4 + (begun + torch.arange(9)) % 3, torch.full((rows, 1), EOS)], 1)
        nothing: Tensor = torch.zeros(rows, 0, dtype=torch.int64)
        index = torch.arange(rows)
        return Batch(nothing, nothing.bool(), target, target > BOS, index, torch.zeros_like(index))

    model = train(build_model(TEXT, SYMBOLS), texts, steps=100)
    batch = texts(30)
    with torch.no_grad():
        assert token_loss(model, batch).mean.item() < math.log(3) / 10 + 0.1
    prompt = torch.tensor([[5, 6], [6, 4]])
    decoded = Greedy(max_length_extra=10)(model, prompt, prompt > 0, prefix=prompt)
    assert decoded.sequences[:, 0].tolist() == [[5, 6, 4, 5, 6, 4, 5, 6, 4, EOS], [6, 4, 5, 6, 4, 5, 6, 4, 5, EOS]]


def test_an_untrained_model_has_uniform_perplexity():
    """An output layer of zeros gives each of 7 symbols the same chance."""
    model = build_model(TEXT, SYMBOLS)
    torch.nn.init.zeros_(model.output.weight)
    torch.nn.init.zeros_(model.output.bias)
    nothing = torch.zeros(2, 0, dtype=torch.int64)
    target = torch.tensor([[4, 5, EOS], [6, EOS, 0]])
    loss = token_loss(model, Batch(nothing, nothing.bool(), target, target > 0, torch.arange(2), torch.zeros(2).long()))
    assert int(loss.tokens) == 5
    assert abs(math.exp(loss.mean.item()) - 7) < 1e-4

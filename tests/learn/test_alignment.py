"""A small model learns to copy and to reverse, and what it reads lies where it must."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import registry
from attnx.data.batches import Batch
from attnx.decoding.greedy import Greedy
from attnx.symbols import EOS, PAD
from attnx.tasks.sequences import token_loss

SYMBOLS, SHORTEST, LONGEST = 11, 3, 7
FIRST = 4  # ids below are the special symbols'


def node(kind: str, name: str, **knobs: Any) -> dict[str, Any]:
    return {"name": name, **registry.check(kind, name, knobs)}


def composed(scorer: str, scope: str) -> dict[str, Any]:
    """Contexts are sums of source embeddings and nothing else reaches the decoder: to be right it must look right."""
    return {
        "scorer": node("scorer", scorer),
        "scope": node("scope", scope),
        "query": {"current_state": {}},
        "normaliser": node("normaliser", "softmax"),
        "attention": node("attention", "on"),
        "model": node("model", "seq2seq", embedding=16, values="inputs", bridge="zeros", feed="none"),
        "encoder": node("encoder", "recurrent", hidden=24),
        "decoder": node("decoder", "recurrent", hidden=32),
        "readout": node("readout", "joint"),
    }


def draw(rows: int, chance: torch.Generator, reverse: bool) -> Batch:
    lengths = torch.randint(SHORTEST, LONGEST + 1, (rows,), generator=chance)
    source = torch.randint(FIRST, FIRST + SYMBOLS, (rows, LONGEST), generator=chance)
    present = torch.arange(LONGEST) < lengths[:, None]
    target = torch.full((rows, LONGEST + 1), PAD)
    for row, length in enumerate(lengths.tolist()):
        word = source[row, :length]
        target[row, :length] = word.flip(0) if reverse else word
        target[row, length] = EOS
    return Batch(source.masked_fill(~present, PAD), present, target, torch.arange(rows))


def train(config: dict[str, Any], reverse: bool, steps: int) -> torch.nn.Module:
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    symbols = FIRST + SYMBOLS
    model = registry.build("model", config["model"], config=config, source_symbols=symbols, target_symbols=symbols)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    for _ in range(steps):
        optimiser.zero_grad()
        token_loss(model, draw(48, chance, reverse)).mean.backward()
        optimiser.step()
        falling.step()
    return model.eval()


def on_the_line(weights: Tensor, batch: Batch, reverse: bool) -> float:
    """The mean weight on the position that holds the symbol to be written."""
    held = []
    for row, length in enumerate(batch.present.sum(-1).tolist()):
        places = reversed(range(length)) if reverse else range(length)
        held += [float(weights[row, step, place]) for step, place in enumerate(places)]
    return sum(held) / len(held)


@pytest.mark.parametrize(
    ("scorer", "scope", "reverse"),
    [("additive", "global", True), ("additive", "local", False)],
)
def test_it_reads_where_it_must(scorer: str, scope: str, reverse: bool) -> None:
    model = train(composed(scorer, scope), reverse, steps=350)
    batch = draw(200, torch.Generator().manual_seed(13), reverse)  # other strings than those trained on
    found = Greedy()(model, batch.source, batch.present, need_weights=True)
    steps = min(found.symbols.shape[1], batch.target.shape[1])
    right = (found.symbols[:, :steps] == batch.target[:, :steps]).all(-1) & (found.symbols[:, steps:] == PAD).all(-1)
    assert right.float().mean() > 0.9
    assert found.weights is not None
    assert on_the_line(found.weights, batch, reverse) > 0.7

"""A small transformer learns to copy and to reverse, in either form."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnx import registry
from attnx.data.batches import Batch
from attnx.data.special_tokens import EOS, PAD
from attnx.decoding.greedy import Greedy
from attnx.tasks.contract import token_loss

SYMBOLS, SHORTEST, LONGEST, STEPS = 11, 2, 5, 300
FIRST = 4  # ids below are the special symbols'


def node(kind: str, name: str, **knobs: Any) -> dict[str, Any]:
    return {"name": name, **registry.check(kind, name, knobs)}


def built(**knobs: Any) -> Any:
    model = {"hidden_size": 32, "layers": 2, "feedforward_size": 64, "dropout": 0.0, **knobs}
    config = {
        "scorer": node("scorer", "scaled"),
        "scope": node("scope", "global"),
        "normalizer": node("normalizer", "softmax"),
        "query": {"current_state": {}},
        "attention": node("attention", "standard", heads=4),
        "model": node("model", "transformer", **model),
    }
    symbols = FIRST + SYMBOLS
    sizes = {"source_symbols": symbols, "source_features": 0, "target_symbols": symbols, "target_features": 0}
    return registry.build("model", config["model"], config=config, **sizes, tags=0)


def draw(rows: int, chance: torch.Generator, reverse: bool) -> Batch:
    lengths = torch.randint(SHORTEST, LONGEST + 1, (rows,), generator=chance)
    source = torch.randint(FIRST, FIRST + SYMBOLS, (rows, LONGEST), generator=chance)
    present = torch.arange(LONGEST) < lengths[:, None]
    target = torch.full((rows, LONGEST + 1), PAD)
    for row, length in enumerate(lengths.tolist()):
        word = source[row, :length]
        target[row, :length] = word.flip(0) if reverse else word
        target[row, length] = EOS
    number, tag = torch.arange(rows), torch.zeros_like(lengths)
    return Batch(source.masked_fill(~present, PAD), present, target, target != PAD, number, tag)


def share_right(model: torch.nn.Module, batch: Batch) -> float:
    """The share of strings that are right to the last symbol."""
    with torch.no_grad():
        written = Greedy()(model.eval(), batch.source, batch.source_mask).written[:, 0]
    steps = min(written.shape[1], batch.target.shape[1])
    right = (written[:, :steps] == batch.target[:, :steps]).all(-1) & (written[:, steps:] == PAD).all(-1)
    return float(right.float().mean())


@pytest.mark.parametrize(
    ("reverse", "knobs"),
    [
        (True, {}),
        (False, {"form": "decoder_only", "position_encoding": "learned"}),
        (True, {"norm": "post", "activation": "gelu"}),
    ],
    ids=str,
)
def test_the_model_learns_to_reverse(reverse: bool, knobs: dict[str, Any]) -> None:
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    model = built(**knobs).train()
    valid_pairs = draw(200, torch.Generator().manual_seed(13), reverse)  # other strings than those trained on
    assert share_right(model, valid_pairs) < 0.1
    optimizer = torch.optim.Adam(model.train().parameters(), lr=0.004, betas=(0.9, 0.98))
    rising = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 30, (STEPS - step) / 150))
    for _ in range(STEPS):
        optimizer.zero_grad()
        token_loss(model, draw(48, chance, reverse)).mean.backward()
        optimizer.step()
        rising.step()
    assert share_right(model, valid_pairs) > 0.9

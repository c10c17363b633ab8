"""A small pointer learns to sort: four to six numbers it has not seen, by pointing to the next one every time."""

from __future__ import annotations

from typing import Any

import torch

from attnx import registry
from attnx.config.compose import compose
from attnx.data.batches import Batch
from attnx.data.special_tokens import EOS, PAD
from attnx.decoding.greedy import Greedy
from attnx.tasks.contract import token_loss

SHORTEST, LONGEST, STEPS = 4, 6, 200
SMALL = [
    "model.embedding_dim=16",
    "encoder.hidden_size=32",
    "decoder.hidden_size=32",
    "scorer.hidden_size=32",
    "model.constraint=permutation",
]


def draw(rows: int, chance: torch.Generator) -> Batch:
    """Rows of numbers between -1 and 1, and their positions in rising order."""
    lengths = torch.randint(SHORTEST, LONGEST + 1, (rows,), generator=chance)
    present = torch.arange(LONGEST) < lengths[:, None]
    source = 2 * torch.rand(rows, LONGEST, generator=chance) - 1
    order = source.masked_fill(~present, 7.0).argsort(1) + 4
    target = torch.cat([order.masked_fill(~present, PAD), torch.full((rows, 1), PAD)], 1)
    target[torch.arange(rows), lengths] = EOS
    source = source[..., None] * present[..., None]
    return Batch(source, present, target, target != PAD, torch.arange(rows), torch.zeros_like(lengths))


def test_the_model_learns_to_sort() -> None:
    """By chance one of 24 to 720 orders is right."""
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    config = compose(["recipe=pointer", "task=pointing", "task.problem=sorting", *SMALL])
    sizes = {"source_symbols": 0, "source_features": 1, "target_symbols": 4 + LONGEST, "tags": 0}
    model: Any = registry.build("model", config["model"], config=config, **sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        token_loss(model, draw(64, chance)).mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        falling.step()
    batch = draw(200, torch.Generator().manual_seed(13))  # other numbers than those trained on
    decoded = Greedy()(model.eval(), batch.source, batch.source_mask)
    steps = decoded.written.shape[2]
    assert steps == LONGEST + 1
    right = (decoded.written[:, 0] == batch.target).all(-1).float().mean().item()
    assert right > 0.6

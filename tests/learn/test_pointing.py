"""A small pointer network learns to sort four to six numbers."""

from typing import Any

import torch

from attnx.config.compose import compose
from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, PAD
from attnx.decoding.greedy import Greedy
from attnx.models.resolve import DataSizes, resolve_model

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
    source_mask = torch.arange(LONGEST) < lengths[:, None]
    source = 2 * torch.rand(rows, LONGEST, generator=chance) - 1
    order = source.masked_fill(~source_mask, 7.0).argsort(1) + 4
    target = torch.cat([order.masked_fill(~source_mask, PAD), torch.full((rows, 1), PAD)], 1)
    target[torch.arange(rows), lengths] = EOS
    source = source[..., None] * source_mask[..., None]
    return Batch(source, source_mask, target, target != PAD, torch.arange(rows), torch.zeros_like(lengths))


def test_the_model_learns_to_sort(train):
    """By chance one of 24 to 720 orders is right."""
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    config = compose(["recipe=pointer", "task=pointing", "task.problem=sorting", *SMALL])
    model: Any = resolve_model(config).build(DataSizes(source_features=1, target_symbols=4 + LONGEST))
    train(model, lambda: draw(64, chance), STEPS, max_norm=1.0)
    batch = draw(200, torch.Generator().manual_seed(13))  # other numbers than those of the training
    decoded = Greedy()(model, batch.source, batch.source_mask)
    steps = decoded.sequences.shape[2]
    assert steps == LONGEST + 1
    right = (decoded.sequences[:, 0] == batch.target).all(-1).float().mean().item()
    assert right > 0.6

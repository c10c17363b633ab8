"""A small model learns by REINFORCE which position to read; its gradient is in known/test_reinforced.py."""

from __future__ import annotations

from typing import Any

import torch

from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model

LENGTHS, STEPS = (3, 7), 400


def test_the_reward_teaches_where_to_read(train, strings):
    """Contexts are source embeddings and nothing else reaches the decoder; every read in training is a sample."""
    config = small_config(
        normalizer=("reinforced", {"reward": 1.0, "entropy": 0.1, "expected": 0.0}),
        model={"embedding_dim": 16, "values_from": "inputs", "bridge": "zeros", "feed": "none"},
        encoder={"hidden_size": 24},
        decoder={"hidden_size": 32},
    )
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    model: Any = resolve_model(config).build(DataSizes(**strings(*LENGTHS).sizes, tags=0))
    train(model, lambda: strings(*LENGTHS).draw(48, chance, reverse=False), STEPS, lr=0.02)
    batch = strings(*LENGTHS).draw(200, torch.Generator().manual_seed(13), reverse=False)
    right, weights = strings(*LENGTHS).share_right(model, batch)
    assert right >= 0.6
    assert weights is not None
    assert ((weights == 0) | (weights == 1)).all()
    steps = torch.arange(LENGTHS[0])
    assert weights[:, steps, steps].mean() > 0.9

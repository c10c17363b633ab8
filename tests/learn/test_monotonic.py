"""A small model learns to copy with a hard monotonic alignment, and never goes back to a position when it writes."""

from __future__ import annotations

from typing import Any

import torch

from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model

LENGTHS, STEPS = (3, 7), 150


def test_a_monotonic_alignment_is_learned(train, strings):
    """Contexts are sums of source embeddings and nothing else reaches the decoder: to be right it must look right."""
    config = small_config(
        normalizer=("monotonic", {"noise": 1.0}),
        model={"embedding_dim": 16, "values_from": "inputs", "bridge": "zeros", "feed": "none"},
        encoder={"hidden_size": 24},
        decoder={"hidden_size": 32},
    )
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    model: Any = resolve_model(config).build(DataSizes(**strings(*LENGTHS).sizes, tags=0))
    train(model, lambda: strings(*LENGTHS).draw(48, chance, reverse=False), STEPS)
    batch = strings(*LENGTHS).draw(200, torch.Generator().manual_seed(13), reverse=False)
    right, weights = strings(*LENGTHS).share_right(model, batch)
    assert right > 0.9
    assert weights is not None
    assert ((weights == 0) | (weights == 1)).all()
    steps = torch.arange(LENGTHS[0])
    assert weights[:, steps, steps].mean() > 0.9
    # How often a position begins to be read, when the step before did not read it.
    is_read = weights > 0
    begins = is_read & ~torch.cat([torch.zeros_like(is_read[:, :1]), is_read[:, :-1]], 1)
    assert begins.sum(1).max() == 1

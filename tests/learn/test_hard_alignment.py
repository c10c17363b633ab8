"""A small model learns where to read, one position at a time: with a hard monotonic alignment, and by REINFORCE."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.laws.small import small_config
from attnx.models.resolve import resolve_model

LENGTHS = (3, 7)
# The options of each normalizer, the steps and the rate of the training, and the least share of right copies. The
# gradient of REINFORCE, whose every read in training is a sample, is in known/test_reinforced.py.
CASES: dict[str, tuple[dict[str, float], int, float, float]] = {
    "monotonic": ({"noise": 1.0}, 150, 0.01, 0.905),
    "reinforced": ({"reward": 1.0, "entropy": 0.1, "expected": 0.0}, 400, 0.02, 0.6),
}


@pytest.mark.parametrize("normalizer", CASES)
def test_one_position_is_read_at_each_step(normalizer, train, strings):
    """Contexts are sums of source embeddings and nothing else reaches the decoder: to be right it must look right."""
    options, steps, lr, least = CASES[normalizer]
    config = small_config(
        normalizer=(normalizer, options),
        model={"embedding_dim": 16, "values_from": "inputs", "bridge": "zeros", "feed": "none"},
        encoder={"hidden_size": 24},
        decoder={"hidden_size": 32},
    )
    torch.manual_seed(7)
    chance = torch.Generator().manual_seed(11)
    model: Any = resolve_model(config).build(strings(*LENGTHS).sizes)
    train(model, lambda: strings(*LENGTHS).draw(48, chance, reverse=False), steps, lr=lr)
    batch = strings(*LENGTHS).draw(200, torch.Generator().manual_seed(13), reverse=False)
    right, weights = strings(*LENGTHS).share_right(model, batch)
    assert right >= least
    assert weights is not None
    assert ((weights == 0) | (weights == 1)).all()
    places = torch.arange(LENGTHS[0])
    assert weights[:, places, places].mean() > 0.9
    if normalizer == "monotonic":
        assert count_returns(weights) == 0


def count_returns(weights: Tensor) -> int:
    """How often a position is read again, when the step before did not read it; the most."""
    is_read = weights > 0
    begins = is_read & ~torch.cat([torch.zeros_like(is_read[:, :1]), is_read[:, :-1]], 1)
    return int(begins.sum(1).max()) - 1

"""A model that copies writes the name after a mark, also names that training never requests."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS
from attnx.decoding.greedy import Greedy
from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model

# Ids below 4 are the special symbols'. Half of the names stand behind a mark in training, all of them elsewhere.
MARK, NAMES, POSITIONS, STEPS = 4, 20, 5, 200
TAUGHT, UNTAUGHT = range(5, 5 + NAMES // 2), range(5 + NAMES // 2, 5 + NAMES)


def model_of(output: str) -> Any:
    config = small_config(
        scorer=("additive", {"hidden_size": 16}),
        model={"embedding_dim": 16},
        encoder={"hidden_size": 16},
        decoder={"hidden_size": 16},
        output=output,
    )
    symbols = UNTAUGHT.stop
    model: Any = resolve_model(config).build(DataSizes(source_symbols=symbols, target_symbols=symbols))
    if output == "copy":
        model.output.set_vocabulary_map([0] * 4 + list(range(4, symbols)))
    return model


def draw(rows: int, allowed_names: range, chance: torch.Generator) -> Batch:
    """Names, among them a mark; the target is the name after the mark, one of the allowed names."""
    source = torch.randint(TAUGHT.start, UNTAUGHT.stop, (rows, POSITIONS), generator=chance)
    place = torch.randint(POSITIONS - 1, (rows, 1), generator=chance)
    name = torch.randint(allowed_names.start, allowed_names.stop, (rows, 1), generator=chance)
    source = source.scatter(1, place, MARK).scatter(1, place + 1, name)
    target = torch.cat([name, torch.full_like(name, EOS)], 1)
    number = torch.arange(rows)
    return Batch(source, source > 0, target, target > 0, number, torch.zeros_like(number))


def taught_and_untaught(output: str, train: Callable[..., Any]) -> tuple[float, float]:
    """The share of right names among those that training requests, and among the others."""
    torch.manual_seed(7)
    model, chance = model_of(output), torch.Generator().manual_seed(11)
    train(model, lambda: draw(32, TAUGHT, chance), STEPS, factor=lambda step: 1.0)

    def right(allowed_names: range) -> float:
        batch = draw(200, allowed_names, chance)
        decoded = Greedy()(model, batch.source, batch.source_mask).sequences[:, 0]
        return float((decoded[:, :2] == batch.target).all(-1).float().mean())

    return right(TAUGHT), right(UNTAUGHT)


@pytest.mark.parametrize(("output", "writes_others"), [("linear", False), ("copy", True)])
def test_copying_generalizes_to_untaught_symbols(output, writes_others, train):
    taught, untaught = taught_and_untaught(output, train)
    assert taught > 0.8
    assert (untaught > 0.7) is writes_others
    assert (untaught < 0.1) is not writes_others

"""Fixtures of learning tests: the training loop, and strings to copy or to reverse."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, PAD
from attnx.decoding.greedy import Greedy
from attnx.models.resolve import DataSizes
from attnx.tasks.loss import token_loss

FIRST, SYMBOLS = 4, 4 + 11  # ids below the first are the special symbols'


def _train(
    model: Any,
    draw: Callable[[], Batch],
    steps: int,
    lr: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    factor: Callable[[int], float] | None = None,
    max_norm: float | None = None,
) -> Any:
    optimizer = torch.optim.Adam(model.train().parameters(), lr=lr, betas=betas, fused=True)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor) if factor else falling
    for _ in range(steps):
        optimizer.zero_grad()
        token_loss(model, draw()).mean.backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        schedule.step()
    return model.eval()


class Strings(NamedTuple):
    """Strings of 11 symbols, of the lengths ``shortest`` to ``longest``, each with its copy or its reverse."""

    shortest: int
    longest: int

    @property
    def sizes(self) -> DataSizes:
        return DataSizes(source_symbols=SYMBOLS, target_symbols=SYMBOLS)

    def draw(self, rows: int, chance: torch.Generator, reverse: bool) -> Batch:
        lengths = torch.randint(self.shortest, self.longest + 1, (rows,), generator=chance)
        source = torch.randint(FIRST, SYMBOLS, (rows, self.longest), generator=chance)
        place, number = torch.arange(self.longest), torch.arange(rows)
        source_mask = place < lengths[:, None]
        word = source.gather(1, (lengths[:, None] - 1 - place).clamp(min=0)) if reverse else source
        target = torch.cat([word.masked_fill(~source_mask, PAD), torch.full((rows, 1), PAD)], 1)
        target[number, lengths] = EOS
        tag = torch.zeros_like(lengths)
        return Batch(source.masked_fill(~source_mask, PAD), source_mask, target, target != PAD, number, tag)

    def share_right(self, model: Any, batch: Batch) -> tuple[float, Tensor | None]:
        """The share of decoded strings that are right to the last symbol, and the weights."""
        with torch.no_grad():
            decoded = Greedy()(model.eval(), batch.source, batch.source_mask, need_weights=True)
        written = decoded.sequences[:, 0]
        steps = min(written.shape[1], batch.target.shape[1])
        right = (written[:, :steps] == batch.target[:, :steps]).all(-1) & (written[:, steps:] == PAD).all(-1)
        return float(right.float().mean()), None if decoded.weights is None else decoded.weights[:, 0]


@pytest.fixture(scope="session")
def strings():
    return Strings


@pytest.fixture(scope="session")
def train():
    """Train a model by Adam on drawn batches; without a ``factor`` the rate falls to a twentieth."""
    return _train

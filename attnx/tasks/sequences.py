"""What tasks over pairs of symbol sequences share: their data as the model sees it, and the token loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.batches import Batch, PairDataset
from attnx.data.pairs import Pair
from attnx.data.split import Splits
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.symbols import BOS, PAD


class Loss(NamedTuple):
    """A loss as a sum and the number of target tokens it sums over, so that means stay exact across batches."""

    total: Tensor
    tokens: Tensor

    @property
    def mean(self) -> Tensor:
        """The loss per token."""
        return self.total / self.tokens


@dataclass(frozen=True)
class SequenceData:
    """Pairs, split and encoded.

    Attributes:
        pairs: train, valid and test.
        source: the source vocabulary, from the training part alone.
        target: the target vocabulary, likewise.
    """

    pairs: Splits
    source: Vocabulary
    target: Vocabulary

    @classmethod
    def of(cls, pairs: Splits) -> SequenceData:
        """Build the vocabularies from the training part.

        Raises:
            UserError: a part is empty.
        """
        for name, part in pairs._asdict().items():
            if not part:
                raise UserError(f"the {name} part holds no pairs; give more data or another task.{name}")
        source = Vocabulary.of(pair.source for pair in pairs.train)
        target = Vocabulary.of(reference for pair in pairs.train for reference in pair.references)
        return cls(pairs, source, target)

    def train_rows(self) -> PairDataset:
        """A row per pair and reference."""
        return PairDataset.from_pairs(self.pairs.train, self.source, self.target, every_reference=True)

    def rows(self, pairs: list[Pair]) -> PairDataset:
        """A row per pair, with its first reference as the target."""
        return PairDataset.from_pairs(pairs, self.source, self.target, every_reference=False)


class SequenceTask(Protocol):
    """What training needs of a task."""

    monitor: str
    smoothing: float

    def load(self) -> SequenceData:
        """Read and split the data; every mistake in them is a UserError naming file and line."""
        ...

    def metrics(self) -> dict[str, nn.Module]:
        """Fresh metrics by name, each a torchmetrics Metric over symbol sequences."""
        ...


def token_loss(model: nn.Module, batch: Batch, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
    """Cross-entropy of the target's symbols, its EOS included, under teacher forcing.

    Args:
        model: called with source, present and the target moved right by one.
        batch: a padded batch.
        smoothing: label smoothing (Szegedy et al. 2016, https://arxiv.org/abs/1512.00567).
        sampling: chance to feed the model's own output back.
    """
    inputs = torch.cat([torch.full_like(batch.target[:, :1], BOS), batch.target[:, :-1]], dim=1)
    logits = model(batch.source, batch.present, inputs, sampling).logits
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing
    )
    return Loss(total, (batch.target != PAD).sum())

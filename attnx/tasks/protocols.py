"""What tasks over pairs of sequences share: their data as the model sees it, and the loss of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from attnx.data.batches import Batch, PairDataset
from attnx.data.examples import Pair, Symbols
from attnx.data.features import Features
from attnx.data.split import Splits
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.nn.targets.forecast import subtract_last_value


class Loss(NamedTuple):
    """A loss as a sum and the number of target steps it sums over, so that means stay exact across batches.

    Attributes:
        total: summed over steps: cross-entropy of symbols; of numbers squared error and cross-entropy of the end.
        tokens: how many steps it sums over.
        penalty: what a scorer adds while training, summed; 0 for most.
    """

    total: Tensor
    tokens: Tensor
    penalty: Tensor

    @property
    def mean(self) -> Tensor:
        """What training lowers, per step."""
        return (self.total + self.penalty) / self.tokens


@dataclass(frozen=True)
class SequenceData:
    """Pairs, split and encoded.

    Attributes:
        pairs: train, valid and test; ``train`` may be empty where ``rows`` hold what is trained on.
        source: the source vocabulary, or how a matrix of features is scaled; from the training part alone.
        target: the target's, likewise.
        tags: every tag (language) of the training part, in the order of its number; empty where there are none.
        rows: what to train on, already encoded; None to encode ``pairs.train``.
    """

    pairs: Splits
    source: Vocabulary | Features
    target: Vocabulary | Features
    tags: tuple[str, ...] = ()
    rows: PairDataset | None = None

    @classmethod
    def of(cls, pairs: Splits) -> SequenceData:
        """Build vocabularies and tags from the training part.

        Raises:
            UserError: a part is empty, or holds a tag that the training part has not.
        """
        for name, part in pairs._asdict().items():
            if not part:
                raise UserError(f"the {name} part holds no pairs; give more data or another task.{name}")
        source = Vocabulary.of(pair.source for pair in pairs.train)
        target = Vocabulary.of(reference for pair in pairs.train for reference in pair.references)
        return cls(pairs, source, target, tags_of(pairs))

    def train_rows(self) -> PairDataset:
        """A row per pair and reference."""
        if self.rows is not None:
            return self.rows
        return PairDataset.from_pairs(self.pairs.train, self.source, self.target, True, self.tags)

    def judged_rows(self, pairs: list[Pair]) -> PairDataset:
        """A row per pair, with its first reference as the target."""
        return PairDataset.from_pairs(pairs, self.source, self.target, False, self.tags)


def tags_of(pairs: Splits) -> tuple[str, ...]:
    """The tags of the training part, sorted; none if no pair has one.

    Raises:
        UserError: a pair of another part has a tag that the training part has not.
    """
    tags = sorted({pair.tag for pair in pairs.train})
    for name, part in (("valid", pairs.valid), ("test", pairs.test)):
        for tag in sorted({pair.tag for pair in part} - set(tags)):
            raise UserError(f"the {name} part holds {tag or 'pairs without a tag'!r}, which the training part has not")
    return () if tags == [""] else tuple(tags)


class SequenceTask(Protocol):
    """What training needs of a task.

    Beside what stands here it may have ``notes``, lines that tell after :meth:`load` what was left out of the data, and
    a method ``signatures(metrics)``, the exact definition of each metric by its name. Both are shown and kept. With a
    method ``test_pairs()``, the pairs of its knob ``test`` read without any others, runs are evaluated on other files.
    A method ``neighbors(pairs)`` tells the order of test examples that are not independent, and how many in a row are
    much alike; they are drawn together where other draws of a test are measured. What ``baselines`` names is measured
    beside the run, ``NAME_mse`` where the run's own measure is ``mse``, and compared with it.

    Attributes:
        monitor: the validation measure that says which weights are best, as it is logged: ``valid_per``.
        maximize: whether a higher one is better.
        smoothing: label smoothing of the loss.
    """

    monitor: str
    maximize: bool
    smoothing: float

    def load(self) -> SequenceData:
        """Read and split the data; every mistake in them is a UserError naming file and line."""
        ...

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Fresh torchmetrics Metrics by name.

        What one computes is logged as ``valid_NAME`` and ``test_NAME``; if it computes a mapping, each entry as
        ``test_NAME_ENTRY``.
        """
        ...

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: for each pair the symbols that were written, or the matrix in the data's units."""
        ...

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A user's text as source symbols."""
        ...

    def text(self, symbols: Sequence[str]) -> str:
        """Output symbols as text."""
        ...

    def save(self, folder: Path) -> None:
        """Write what :meth:`symbols` and :meth:`text` need beside the vocabularies (tokenizers), if anything."""
        ...

    def restore(self, folder: Path) -> None:
        """Read back what :meth:`save` wrote; called instead of :meth:`load` when a run is reopened."""
        ...


def signatures_of(task: SequenceTask, metrics: nn.ModuleDict) -> dict[str, str]:
    """What exactly each metric computes, by its name; empty where the task has no signatures."""
    found: dict[str, str] = task.signatures(metrics) if hasattr(task, "signatures") else {}
    return found


def token_loss(model: Any, batch: Batch, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
    """What the model loses by its ``target``, under teacher forcing: of symbols cross-entropy, EOS included.

    A step of which only some numbers are ``counted`` is that share of a step.

    Args:
        model: called with source, present and the target moved right by one.
        batch: a padded batch.
        smoothing: label smoothing.
        sampling: chance to feed the model's own output back.
    """
    source, last = subtract_last_value(model.target, batch.source)
    target = batch.target if last is None else batch.target - last[..., : batch.target.shape[-1]]
    first = model.target.start_input(len(target), target.device)
    inputs = torch.cat([first[:, None], target[:, :-1]], dim=1)
    output = model(source, batch.present, inputs, batch.tag, sampling)
    real, logits = batch.target_present, output.logits
    tokens = real.sum()
    if batch.counted is not None:  # what is not was foretold exactly
        tokens = (batch.counted & real[..., None]).sum() / target.shape[-1]
        target = target.masked_fill(~batch.counted, 0.0)
        logits = logits.masked_fill(~batch.counted.repeat(1, 1, logits.shape[-1] // target.shape[-1]), 0.0)
    total = model.target.loss(logits, target, real, smoothing)
    penalty = torch.zeros_like(total) if output.penalty is None else (output.penalty * real).sum()
    return Loss(total, tokens, penalty)

"""The task ``probe``: label the steps of made sequences, each of which tests one ability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from torch import nn

from attnx import registry
from attnx.data.dataset import PairDataset
from attnx.data.examples import Pair, Symbols
from attnx.data.ragged import Ragged
from attnx.data.special_tokens import NO_LABEL, PAD
from attnx.data.splits import SplitName, Splits
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import update_all
from attnx.registry import NonNegativeFloat, NonNegativeInt, PositiveInt, register
from attnx.tasks.contract import SequenceData, SequenceTask, TaskOutput

from .draw_rows import draw_split
from .drawn import NOWHERE, Drawn, Setting
from .options import read_design
from .target import StepLabels


@register(
    "task",
    "probe",
    read_if={"pairs": "problem=mqar", "power": "problem=mqar", "filler_symbols": "fillers=own"},
    check_options=".options.check_options",
)
class Probe(SequenceTask):
    """Made sequences that test one ability: the label of a marked step follows from the steps up to it.

    Formula: ``minimize -sum over marked t of log p(y_t | x_1, ..., x_t)``
    Source: ``mqar``: Arora et al. 2023, https://arxiv.org/abs/2312.04927

    ``mqar`` is multi-query associative recall: ``pairs`` of a key and a value, then each key once more, which is
    labeled by its value. Half of the ``vocabulary`` are keys. Slot i after the pairs holds a query with weight
    i^(``power`` - 1). The other slots hold ``fillers``: one ``blank`` symbol, ``filler_symbols`` of their ``own``, or
    ``any`` symbol, as in a later setting of its authors, where a filler may be a key.

    ``length`` is that of the sequences: a number, a range such as ``3-40``, or a list of them, taken in turn; ``64x4``
    are 64 steps with 4 pairs. ``test`` are those of the test split, by default the same; results are split by them.
    Sequences are drawn from ``seed`` before training: ``examples`` for training and ``num_held_out`` each for
    validation and testing. Metrics are of the likeliest label at each marked step, given the true steps before it.
    """

    monitor = "valid_accuracy"
    maximize = True
    label_smoothing = 0.0
    is_continuation = True
    has_step_labels = True
    num_drawn = "examples"
    leaves_unread = ("decoding", "model.scheduled_sampling")

    def __init__(
        self,
        problem: Literal["mqar"] = "mqar",
        length: PositiveInt | str | list[PositiveInt | str] | None = None,
        test: PositiveInt | str | list[PositiveInt | str] | None = None,
        pairs: PositiveInt | None = None,
        vocabulary: PositiveInt | None = None,
        power: NonNegativeFloat = 0.01,
        fillers: Literal["blank", "own", "any"] = "blank",
        filler_symbols: PositiveInt = 16,
        examples: PositiveInt = 100_000,
        num_held_out: PositiveInt = 1000,
        seed: NonNegativeInt = 1,
    ) -> None:
        options = {
            "problem": problem,
            "length": length,
            "test": test,
            "pairs": pairs,
            "vocabulary": vocabulary,
            "power": power,
            "fillers": fillers,
            "filler_symbols": filler_symbols,
        }
        self.problem, self.train_settings, self.test_settings = read_design(options)
        self.examples, self.num_held_out, self.seed = examples, num_held_out, seed
        self.notes: list[str] = []

    @classmethod
    def build_target(cls, options: Mapping[str, Any], symbols: int, features: int) -> StepLabels:
        """A label for each step."""
        return StepLabels(symbols)

    def load(self) -> SequenceData:
        """Draw the data."""
        self.notes = []
        vocabulary = Vocabulary(SPECIALS + self.problem.symbols)
        valid = self._draw_pairs("valid", self.train_settings)
        return SequenceData(Splits([], valid, self.test_pairs()), vocabulary, vocabulary, rows=self._draw_train())

    def test_pairs(self) -> list[Pair]:
        """Draw the test split alone."""
        return self._draw_pairs("test", self.test_settings)

    def _draw(self, split: SplitName, settings: Sequence[Setting], count: int) -> Iterator[tuple[Setting, Drawn]]:
        shared = {*self.train_settings}  # validation has them, too
        return draw_split(self.problem, settings, count, (self.seed, split), shared)

    def _draw_train(self) -> PairDataset:
        """The training split as ids, in as few bytes as they need."""
        ids = np.min_scalar_type(len(SPECIALS) + len(self.problem.symbols))
        sources, targets, masks, lengths = [], [], [], []
        for setting, drawn in self._draw("train", self.train_settings, self.examples):
            sources.append((drawn.inputs + len(SPECIALS)).astype(ids).ravel())
            targets.append(np.where(drawn.labels == NOWHERE, PAD, drawn.labels + len(SPECIALS)).astype(ids).ravel())
            masks.append(drawn.scored.ravel())
            lengths.append(np.full(len(drawn.inputs), setting.length))
        offsets = np.append(0, np.cumsum(np.concatenate(lengths)))
        rows, labels, counted = (Ragged(np.concatenate(part), offsets) for part in (sources, targets, masks))
        return PairDataset(rows, labels, loss_masks=counted)

    def _draw_pairs(self, split: SplitName, settings: Sequence[Setting]) -> list[Pair]:
        symbols = np.array([*self.problem.symbols, NO_LABEL], dtype=object)  # NOWHERE is the last
        pairs = []
        for setting, drawn in self._draw(split, settings, self.num_held_out):
            labels = np.where(drawn.scored, drawn.labels, NOWHERE)
            distances = np.where(drawn.origins == NOWHERE, 0, np.arange(setting.length) - drawn.origins)
            columns = (symbols[drawn.inputs], symbols[labels], drawn.scored, distances)
            for row in zip(*(map(tuple, part.tolist()) for part in columns), strict=True):
                source, reference, mask, distance = row
                pairs.append(Pair(source, (reference,), name=str(setting), loss_mask=mask, distances=distance))
        return pairs

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build the accuracy of labels, by setting, and by distance where an answer stands in the sequence."""
        settings = [str(setting) for setting in dict.fromkeys([*self.test_settings, *self.train_settings])]
        return {
            "accuracy": registry.build("metric", "label_accuracy", settings=settings),
            "distance_accuracy": registry.build("metric", "distance_accuracy"),
        }

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch of labels."""
        update_all(metrics, outputs, pairs, [])

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a user's sequence at spaces; a blank one is a UserError."""
        symbols = tuple(text.split())
        if not symbols:
            raise UserError(f"{text!r} is empty; there is nothing to read")
        return symbols

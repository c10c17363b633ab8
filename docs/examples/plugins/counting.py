"""The task ``counting``."""

from __future__ import annotations

import random
from collections.abc import Sequence

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.splits import split_by_hash
from attnx.registry import PositiveInt, register
from attnx.tasks.contract import SequenceData, SequenceTask


@register("task", "counting")
class Counting(SequenceTask):
    """Letters in, their number out.

    Formula: ``minimize -log p(number | letters)``
    Source: none
    """

    monitor = "valid_sequence_error_rate"
    maximize = False
    label_smoothing = 0.0

    def __init__(self, examples: PositiveInt = 2000) -> None:
        self.examples = examples

    def load(self) -> SequenceData:
        """Make pairs, and split them by a hash of their source."""
        rng = random.Random(1)
        words = {"".join(rng.choices("abc", k=rng.randint(1, 12))) for _ in range(self.examples)}
        pairs = [Pair(tuple(word), ((str(len(word)),),)) for word in sorted(words)]
        return SequenceData.of(split_by_hash(pairs, lambda pair: pair.source_text, valid=0.1, test=0.2))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """The share of wrong numbers, in percent."""
        return {"sequence_error_rate": registry.build("metric", "sequence_error_rate")}

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Each letter is a symbol."""
        return tuple(text)

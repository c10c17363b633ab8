"""The task ``listops``: the value of an expression of lists; expressions are drawn from a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from torch import nn

from attnx import registry
from attnx.data.dataset import PairDataset, Ragged
from attnx.data.examples import Pair, Symbols
from attnx.data.splits import Splits
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.registry import NonNegativeInt, PositiveInt, register
from attnx.tasks.contract import SequenceData, SequenceTask

from .expressions import DIGITS, SYMBOLS, draw_expressions, evaluate, read_shape


@register("task", "listops", check_options=".expressions.read_shape")
@dataclass(eq=False)
class ListOps(SequenceTask):
    """Read an expression such as ``[MAX 2 9 [MIN 4 7 ] 0 ]``; the answer is its value, one digit.

    Formula: ``minimize -log p(value | expression)``
    Source: Nangia and Bowman 2018, https://aclanthology.org/N18-4013; long ones: Tay et al. 2021, section 2.2.1,
        https://arxiv.org/abs/2011.04006

    A list is an operator, two to ``max_args`` arguments, and an end. An argument is a digit, or with probability 0.25
    a list, at most ``max_depth`` deep, where a digit is one deep. Operators are the minimum, the maximum, the median,
    rounded down, and the sum modulo 10. Expressions of ``min_length`` to ``max_length`` symbols are kept; the
    defaults are those of the Long Range Arena. All are different, those of the three splits too. They are drawn from
    ``seed``, ``num_held_out`` each for testing and validation, and then ``examples`` for training.
    """

    monitor = "valid_accuracy"
    maximize = True
    label_smoothing = 0.0
    has_labels = True
    num_drawn = "examples"

    max_depth: PositiveInt = 10
    max_args: PositiveInt = 10
    min_length: PositiveInt = 500
    max_length: PositiveInt = 2000
    examples: PositiveInt = 96_000
    num_held_out: PositiveInt = 2000
    seed: NonNegativeInt = 1

    def __post_init__(self) -> None:
        """Check the options; a UserError if no expression fits them."""
        self.shape = read_shape(vars(self))
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Draw the data; ``notes`` then says how often the most frequent value is right."""
        expressions = draw_expressions(self.shape, self.seed)
        test, valid = (_pairs(islice(expressions, self.num_held_out)) for _ in range(2))
        source, target = Vocabulary(SPECIALS + SYMBOLS), Vocabulary(SPECIALS + DIGITS)
        flat, lengths, targets = bytearray(), [0], []  # of training, a byte a symbol
        for symbols in islice(expressions, self.examples):
            flat += bytes(source.encode(symbols))
            lengths.append(len(symbols))
            targets.append(target.encode(str(evaluate(symbols)), end=True))
        rows = PairDataset(Ragged(np.frombuffer(flat, np.uint8), np.cumsum(lengths)), Ragged.of(targets))
        ((value, count),) = Counter(pair.references[0][0] for pair in test).most_common(1)
        self.notes = [f"always answering {value}, the most frequent, is right in {count / len(test):.1%} of the test"]
        return SequenceData(Splits([], valid, test), source, target, rows=rows)

    def test_pairs(self) -> list[Pair]:
        """Draw the test split alone."""
        return _pairs(islice(draw_expressions(self.shape, self.seed), self.num_held_out))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build accuracy and macro F1, in percent."""
        return {name: registry.build("metric", name, labels=DIGITS) for name in ("accuracy", "macro_f1")}

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a user's expression at spaces; a UserError if it is none."""
        symbols = tuple(text.split())
        evaluate(symbols)
        return symbols


def _pairs(expressions: Iterable[Symbols]) -> list[Pair]:
    return [Pair(symbols, ((str(evaluate(symbols)),),)) for symbols in expressions]

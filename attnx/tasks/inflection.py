"""The task ``inflection``: the form of a word from its lemma and its features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Literal

from torch import nn

from attnx.data.examples import Pair, Symbols
from attnx.data.paths import resolve_data_path
from attnx.data.readers.inflections import UNIMORPH, inflection_source, read_inflections
from attnx.data.splits import hold_out_missing, overlap_notes
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.metrics.per_tag import metrics_per_tag
from attnx.registry import PositiveInt, Probability, register
from attnx.tasks.contract import SequenceData, SequenceTask

METRICS = {"accuracy": "exact_match", "edit_distance": "edit_distance"}


@register(
    "task",
    "inflection",
    read_if={"holdout": ["valid=null", "test=null"]},
    metric_facts={"edit_distance": {"higher_is_better": False, "unit": "edits a form"}},
)
class Inflection(SequenceTask):
    """Write the form of a lemma that has the given features: ``ev`` with ``N;ABL;PL`` is ``evlerden``.

    Formula: ``minimize -sum_t log p(letter_t | letters_<t, features, lemma)``
    Source: Kann and Schuetze 2016, section 3 (the features are source symbols before the letters),
        https://aclanthology.org/W16-2010; Cotterell et al. 2018, https://aclanthology.org/K18-3001

    ``train`` (and ``valid``, ``test``) names a table with tabs, plain or .gz. ``columns`` names the columns of the
    lemma, its features and the form, by their numbers or by their names in the first line; by default 1, 3 and 2, the
    order of UniMorph. ``features`` says what of a bundle such as ``N;ACC(PL;PSS(2,SG))`` is a source symbol: each
    feature (``split``), what semicolons outside of parentheses divide (``composite``), or the ``whole``.

    A missing split is held out of the training file by a hash of the lemma, so that no two share one: ``holdout`` of
    the lemmas for validation, twice as many for testing. Lines with equal lemma and features are one source with
    several forms; the closest one counts.
    """

    monitor = "valid_accuracy"
    maximize = True
    data_files = ("train", "valid", "test")

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        columns: list[str | PositiveInt] | None = None,
        features: Literal["split", "composite", "whole"] = "split",
        holdout: Probability = 0.05,
        label_smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.columns, self.features = list(map(str, columns or UNIMORPH)), features
        if len(self.columns) != 3:
            named = ",".join(self.columns)
            raise UserError(f"task.columns=[{named}]: name three, those of the lemma, the features and the form")
        self.holdout, self.label_smoothing = holdout, label_smoothing
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Read and split the data; ``notes`` then says how many sources are in two splits."""
        if not self.files["train"]:
            raise UserError("task.train is not set: name a table of lemmas, forms and features")
        self.notes = []
        files = {part: self._read(part) for part, file in self.files.items() if file}
        pairs = hold_out_missing(files.pop("train"), files, _lemma, self.holdout)
        self.notes += overlap_notes(
            {pair.source for pair in pairs.train}, {part: [pair.source for pair in files[part]] for part in files}
        )
        return SequenceData.of(pairs)

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        return self._read("test")

    def _read(self, part: str) -> list[Pair]:
        path = resolve_data_path(f"task.{part}", str(self.files[part]))
        return read_inflections(path, self.columns, self.features, self.notes)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build the percentage of right forms, and the edits a form, against the closest reference."""
        return metrics_per_tag(METRICS, tags)

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a user's lemma and features, with a tab between; a UserError if one is missing."""
        cells = text.split("\t")
        if len(cells) != 2:
            raise UserError(
                f"{text!r} has {count_phrase(len(cells), 'column')}; expected a lemma, a tab and its features"
            )
        return inflection_source(cells[0].strip(), cells[1], self.features)

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Join the letters of a form."""
        return "".join(symbols)


def _lemma(pair: Pair) -> str:
    return "".join(dropwhile(lambda symbol: len(symbol) > 1, pair.source))

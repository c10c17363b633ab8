"""The task ``inflection``: the form of a word from its lemma and its features, read from SIGMORPHON's tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Final, Literal

from torch import nn

from attnx.data.examples import Pair, Symbols, merge_references
from attnx.data.paths import resolve_data_path
from attnx.data.readers.columns import CHECKED_LINES, MIN_SHARE, TableRow, header_note, read_text_rows
from attnx.data.readers.lines import are_column_names
from attnx.data.splits import hold_out_missing, overlap_notes
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.printable import quoted
from attnx.metrics.per_tag import metrics_per_tag
from attnx.registry import PositiveInt, Probability, register
from attnx.tasks.contract import SequenceData, SequenceTask

METRICS = {"accuracy": "exact_match", "edit_distance": "edit_distance"}
Bundles = Literal["split", "composite", "whole"]
FIELDS: Final = ("lemma", "features", "form")
UNIMORPH: Final = ("1", "3", "2")  # the columns of the lemma, the features and the form
# Features, not a word: `V;PST`, `N`, `N;ACC(PL)`, `pos=N,case=NOM`.
BUNDLE: Final = re.compile(r"(?=.*[A-Z])(?:[^a-z\s]+|[^\s;=]*[;=]\S*)")


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


def split_features(text: str, bundles: Bundles) -> Symbols:
    """Split a bundle of features into source symbols, in brackets, so that none equals a letter.

    >>> split_features("N;ACC(PL;PSS(2,SG))", "split")
    ('[N]', '[ACC]', '[PL]', '[PSS]', '[2]', '[SG]')
    >>> split_features("N;ACC(PL;PSS(2,SG))", "composite")
    ('[N]', '[ACC(PL;PSS(2,SG))]')
    >>> split_features("V;PST", "whole")
    ('[V;PST]',)
    """
    if bundles == "whole":
        features = [text]
    elif bundles == "split":
        features = re.split("[;,()]", text)
    else:
        features = []
        for part in text.split(";"):
            if features and features[-1].count("(") > features[-1].count(")"):
                features[-1] += f";{part}"
            else:
                features.append(part)
    return tuple(f"[{feature.strip()}]" for feature in features if feature.strip())


def inflection_source(lemma: str, features: str, bundles: Bundles) -> Symbols:
    """The source symbols: the features, then the letters of the lemma; a UserError if there are none of either."""
    symbols = split_features(features, bundles)
    if not lemma or not symbols:
        raise UserError(f"the {'features are' if lemma else 'lemma is'} empty")
    return (*symbols, *lemma)


def read_inflections(path: Path, columns: Sequence[str], bundles: Bundles, notes: list[str]) -> list[Pair]:
    """Read a UTF-8 table with tabs, plain or ``.gz``: a pair for each lemma with features, its forms the references.

    ``columns`` are of the lemma, its features and the form, by number from 1, or by name in the first line, which is
    then noted. Blank lines are skipped.

    Raises:
        UserError: ``file:line: problem`` for a bad line, or for a first one whose form looks like features; ``file:
            problem`` for a bad file.
    """
    rows = [row for row in read_text_rows(path, columns) if row is not None]
    if rows and are_column_names(rows[0].cells):
        notes.append(header_note(path, rows.pop(0).cells))
    _check_order(rows[:CHECKED_LINES], columns)
    entries, identities = [], {}
    for row in rows:
        lemma, features, form = row.cells
        try:
            source = inflection_source(lemma, features, bundles)
        except UserError as error:
            raise UserError(f"{row.where}: {error} in {quoted(row.line)}") from None
        if not form:
            raise UserError(f"{row.where}: the form is empty in {quoted(row.line)}")
        entries.append((source, tuple(form)))
        identities[source] = inflection_source(lemma, features, "split")
    if not entries:
        raise UserError(f"{path}: holds no forms; expected lines of a lemma, its form and its features")
    return [pair.identified_by(identities[pair.source]) for pair in merge_references(entries)]


def _check_order(rows: Sequence[TableRow], columns: Sequence[str]) -> None:
    """Refuse lemmas or forms that look like features beside features that look like words."""
    lemma, features, form = (
        sum(bool(BUNDLE.fullmatch(row.cells[place])) for row in rows) >= MIN_SHARE * len(rows) for place in range(3)
    )
    if not rows or features or not (lemma or form):
        return
    place, order = (2, (0, 2, 1)) if form else (0, (1, 0, 2))
    cells = rows[0].cells
    raise UserError(
        f"{rows[0].where}: the {FIELDS[place]} {quoted(cells[place])} looks like features, and the features "
        f"{quoted(cells[1])} like a word; name the columns of the lemma, the features and the form: "
        f"task.columns=[{','.join(columns[index] for index in order)}]"
    )

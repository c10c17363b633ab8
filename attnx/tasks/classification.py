"""The task ``classification``: one label for a text, or for a pair of texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain, takewhile
from pathlib import Path
from typing import Final, Literal, NamedTuple

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.graphemes import word_characters
from attnx.data.paths import resolve_data_path
from attnx.data.readers.columns import MAX_VALUES, MIN_LINES, header_note, is_header, read_text_rows
from attnx.data.readers.lines import separator_hint
from attnx.data.splits import hold_out_missing, overlap_notes
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError, suggest
from attnx.files.parse_number import count_phrase
from attnx.files.printable import quoted
from attnx.registry import PositiveInt, Probability, register
from attnx.runs.layout import TARGET_SYMBOLS
from attnx.tasks.contract import SequenceData, SequenceTask, check_splits

FULL_STOP: Final = "."
# Between the two texts of a pair. No text has this symbol: in texts its three parts are symbols.
SEPARATOR: Final = "<sep>"
_SENTENCE_END: Final = re.compile(r"[.!?]+")
_LINES: Final = {
    (1, "last"): "a text, a tab and its label",
    (1, "first"): "a label, a tab and its text (task.label=first)",
    (2, "last"): "two texts and their label, with tabs between them (task.texts=2)",
    (2, "first"): "a label and two texts, with tabs between them (task.texts=2 task.label=first)",
}


class Columns(NamedTuple):
    """The columns of a file: one text or two, and their label before or after them."""

    texts: Literal[1, 2] = 1
    label: Literal["first", "last"] = "last"

    @property
    def description(self) -> str:
        """What a line has."""
        return _LINES[self.texts, self.label]


ONE_TEXT: Final = Columns()


@register("task", "classification", read_if={"holdout": ["valid=null", "test=null"]})
class Classification(SequenceTask):
    """Read a text, or two; the answer is one label.

    Formula: ``minimize -log p(label | text)``
    Source: Yang et al. 2016, section 2.3, https://aclanthology.org/N16-1174

    ``train`` (and ``valid``, ``test``) names a TSV file, plain or .gz: a text, a tab and its label, or with
    ``label=first`` the label first. With ``texts=2`` a line has two texts, which are read as one sequence with a
    separator between them. Texts are split into words and marks, lower-cased unless ``lower=false``; each sentence
    ends with a full stop, behind its exclamation or question mark. Words that occur fewer than ``min_count`` times in
    the training split are read as one unknown word.

    A missing split is held out of the training file by a hash of the text, of two the first: ``holdout`` of them for
    validation, twice as many for testing. Labels that the training split lacks are an error.
    """

    monitor = "valid_accuracy"
    maximize = True
    data_files = ("train", "valid", "test")
    has_sentences = True
    has_labels = True

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        texts: Literal[1, 2] = 1,
        label: Literal["first", "last"] = "last",
        lower: bool = True,
        min_count: PositiveInt = 2,
        holdout: Probability = 0.1,
        label_smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.columns, self.lower, self.min_count = Columns(texts, label), lower, min_count
        self.holdout, self.label_smoothing = holdout, label_smoothing
        self.labels: Symbols = ()
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Read and split the data; ``notes`` then says how many texts are in two splits."""
        if not self.files["train"]:
            raise UserError(f"task.train is not set: name a TSV file of lines with {self.columns.description}")
        self.notes = []
        train = self._read("train")
        known_labels = {pair.references[0][0] for pair in train}
        existing = [part for part in ("valid", "test") if self.files[part]]
        files = {part: self._read(part, known_labels=known_labels) for part in existing}
        self._check_columns(train)
        pairs = hold_out_missing(train, files, _first_text, self.holdout)
        check_splits(pairs)
        self.notes += overlap_notes(
            {pair.source for pair in pairs.train}, {part: [pair.source for pair in files[part]] for part in files}
        )
        counts = Counter(word for pair in pairs.train for word in pair.source)
        frequent = {word for word, count in counts.items() if count >= self.min_count}
        target = Vocabulary.of(pair.references[0] for pair in pairs.train)
        self._set_labels(target)
        for part in ("valid", "test"):
            if any(pair.references[0][0] not in self.labels for pair in getattr(pairs, part)):
                self._read(part if self.files[part] else "train", self.labels)  # once more, to say in which line
        marks = (FULL_STOP, SEPARATOR) if self.columns.texts == 2 else (FULL_STOP,)
        return SequenceData(pairs, Vocabulary.of([frequent], marks), target)

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        return self._read("test", self.labels)

    def _read(self, part: str, labels: Symbols = (), known_labels: Collection[str] = ()) -> list[Pair]:
        file = self.files[part]
        assert file is not None
        path = resolve_data_path(f"task.{part}", file)
        return read_labeled_texts(path, self.columns, self.lower, labels, self.notes, known_labels)

    def _check_columns(self, train: Sequence[Pair]) -> None:
        """Refuse a table whose texts are few and whose labels are many: they are the other way round."""
        texts, labels = {pair.source for pair in train}, {pair.references[0] for pair in train}
        if self.columns == Columns() and len(train) >= MIN_LINES and len(texts) <= MAX_VALUES < len(labels):
            counts = f"{len(texts)} different texts and {len(labels)} different labels"
            raise UserError(
                f"task.train={self.files['train']}: holds {counts}; if labels are in the first column, set "
                "task.label=first"
            )

    def _set_labels(self, target: Vocabulary) -> None:
        self.labels = target.symbols[len(SPECIALS) :]
        if len(self.labels) < 2:
            hint = "" if self.columns.label == "first" else "; if labels are in the first column, set task.label=first"
            raise UserError(
                f"task.train={self.files['train']}: every text has the label {self.labels[0]!r}; there is nothing to "
                f"learn{hint}"
            )

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build accuracy and macro F1, in percent."""
        return {name: registry.build("metric", name, labels=self.labels) for name in ("accuracy", "macro_f1")}

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a user's text, or two with a tab between them, as the data are split; a blank one is a UserError."""
        texts = text.split("\t") if self.columns.texts == 2 else [text]
        if len(texts) != self.columns.texts:
            raise UserError(f"{text!r} has {count_phrase(len(texts), 'column')}; expected two texts with a tab between")
        symbols = [split_words_and_marks(text, self.lower) for text in texts]
        if not all(symbols):
            problem = "is empty" if self.columns.texts == 1 else "has an empty text"
            raise UserError(f"{text!r} {problem}; there is nothing to read")
        return join_texts(*symbols)

    def restore(self, folder: Path) -> None:
        """Read the labels, the target's vocabulary."""
        self._set_labels(Vocabulary.load(folder / TARGET_SYMBOLS))


def _first_text(pair: Pair) -> str:
    return " ".join(takewhile(lambda symbol: symbol != SEPARATOR, pair.identity or pair.source))


def split_words_and_marks(text: str, lower: bool = True) -> Symbols:
    """Split a text into words and marks; each sentence ends with a full stop, behind its ``!`` or ``?``.

    A run of marks that end a sentence is one end. A last sentence without an end gets a full stop, too.

    >>> split_words_and_marks("Won £3.50!! Call now...  It's free")
    ('won', '£', '3.50', '!', '.', 'call', 'now', '.', "it's", 'free', '.')
    """
    symbols: list[str] = []
    for symbol in _symbol_pattern().findall(text.lower() if lower else text):
        if _SENTENCE_END.fullmatch(symbol):
            symbols += [mark for mark in "!?" if mark in symbol] + [FULL_STOP]
        else:
            symbols.append(symbol)
    return tuple(symbols if not symbols or symbols[-1] == FULL_STOP else [*symbols, FULL_STOP])


@cache
def _symbol_pattern() -> re.Pattern[str]:
    """Return the pattern of a number with its decimal marks, a word, marks that end a sentence, or another mark.

    A word has apostrophes and combining marks, but begins with neither: an emoji's variation selector is not part of
    the word after it.
    """
    word = rf"\w[{word_characters()}]*"
    return re.compile(rf"\d+(?:[.,]\d+)+|{word}(?:['\u2019]{word})*|[.!?]+|[^\w\s]")


def join_texts(first: Symbols, *second: Symbols) -> Symbols:
    """One sequence of a text, or of two with a separator between them.

    >>> join_texts(("a", "."), ("b", "."))
    ('a', '.', '<sep>', 'b', '.')
    """
    return (*first, *chain.from_iterable((SEPARATOR, *text) for text in second))


def read_labeled_texts(
    path: Path,
    columns: Columns = ONE_TEXT,
    lower: bool = True,
    labels: Sequence[str] = (),
    notes: list[str] | None = None,
    known_labels: Collection[str] = (),
) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``, of texts and their labels: a pair for each line, in order.

    Blank lines are skipped. The source of two texts is one sequence (:func:`join_texts`). With ``lower`` texts are
    lower-cased, and labels are not. A line may have one of ``labels``, any if there are none. ``notes`` gets a line on
    a first line that names columns, as none does with one of ``known_labels``, those of the training data.

    Raises:
        UserError: ``file:line: problem`` for a bad line; ``file: problem`` for a bad file.
    """
    pairs: list[Pair] = []
    rows = [row for row in read_text_rows(path) if row is not None and any(row.cells)]
    place = 0 if columns.label == "first" else -1
    counts = Counter(row.cells[place] for row in rows[1:])
    if rows and is_header(rows[0].cells, [rows[0].cells[place]], counts, known_labels or labels):
        (notes if notes is not None else []).append(header_note(path, rows.pop(0).cells))
    expected = f"expected {columns.description}"
    for cells, where, line in rows:
        if len(cells) != columns.texts + 1:
            hint = "; pairs of texts need task.texts=2" if len(cells) == 3 else ""
            hint = hint or (separator_hint(line) if len(cells) == 1 else "")
            problem = f"{count_phrase(len(cells), 'column')}; {expected}{hint}"
            raise UserError(f"{where}: {problem}; the line is {quoted(line)}")
        label = cells.pop(place)
        texts = [split_words_and_marks(text, lower) for text in cells]
        if not all(texts) or not label:
            text = "text" if len(texts) == 1 else "second text" if texts[0] else "first text"
            empty = "label" if all(texts) else text
            raise UserError(f"{where}: the {empty} is empty; {expected}; the line is {quoted(line)}")
        if labels and label not in labels:
            raise UserError(f"{where}: the training split lacks the label {label!r}{suggest(label, labels)}")
        pair = Pair(join_texts(*texts), ((label,),))
        pairs.append(pair if lower else pair.identified_by(join_texts(*map(split_words_and_marks, cells))))
    if not pairs:
        raise UserError(f"{path}: holds no texts; expected lines of {columns.description}")
    return pairs

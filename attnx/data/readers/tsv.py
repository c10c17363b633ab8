"""Reading pairs from TSV files: texts, ids, or names of feature files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from attnx.data.examples import Pair, Symbols
from attnx.data.readers.columns import header_note, is_header, read_text_rows
from attnx.data.readers.feature_matrices import MatrixReader
from attnx.data.readers.lines import are_column_names, separator_hint
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.printable import quoted

TextUnit = Literal["characters", "words", "ids"]
ColumnKind = Literal["characters", "words", "ids", "features"]
COLUMN_TEXTS = {
    "characters": "a text",
    "words": "a text",
    "ids": "whole numbers",
    "features": "a file of features",
}


def split_text(text: str, unit: TextUnit) -> Symbols:
    """Split a field of a table, or a user's input, into symbols.

    ``characters`` are code points, spaces included; ``words`` are separated by white space; ``ids`` are words that are
    non-negative integers, 7 and 007 being equal; following are UserErrors.

    >>> split_text("3 May", "characters"), split_text("x  = 3", "words"), split_text("1041 007", "ids")
    (('3', ' ', 'M', 'a', 'y'), ('x', '=', '3'), ('1041', '7'))
    """
    if unit == "characters":
        return tuple(text)
    words = text.split()
    if unit == "words":
        return tuple(words)
    if wrong := next((word for word in words if not re.fullmatch("[0-9]+", word)), None):
        raise UserError(f"{wrong!r} is not an id: ids are whole numbers, 0 or more, separated by spaces")
    return tuple(word.lstrip("0") or "0" for word in words)


def join_symbols(symbols: Symbols, unit: ColumnKind) -> str:
    """Join symbols to a text with single spaces."""
    return ("" if unit == "characters" else " ").join(symbols)


class PairReader:
    """Reads pairs from TSV files: a source, a tab, its target, and if ``tagged`` a tab and a tag (a language, say).

    Args:
        source: kind of the first column; ``features`` are names of files in the table's folder.
        target: kind of the second column, likewise.
        tagged: whether there is a third column.
        step_names: of the sources' files, as in :func:`attnx.data.readers.feature_matrices.read_matrix`.
        target_step_names: of the targets' files.
        trained_columns: columns of the source and target files that a run was trained on; empty without names.

    Attributes:
        notes: on first lines that are taken for names of columns.
        known_targets: target symbols of the training data, by which a first line is known to be data.
    """

    def __init__(
        self,
        source: ColumnKind,
        target: ColumnKind,
        tagged: bool = False,
        step_names: str | None = None,
        target_step_names: str | None = None,
        trained_columns: tuple[Symbols, Symbols] = ((), ()),
    ) -> None:
        self.source, self.target = source, target
        self.sources = MatrixReader(step_names, trained_columns[0])
        self.targets = MatrixReader(target_step_names, trained_columns[1])
        self.notes: list[str] = []
        self.known_targets: Collection[str] = ()
        self.columns = [COLUMN_TEXTS[source], COLUMN_TEXTS[target], *(["a tag"] if tagged else [])]

    def read(self, path: Path) -> dict[tuple[str, str], Pair]:
        """Read a UTF-8 file, plain or ``.gz``: a pair for each (source as text, tag), in the order of the file.

        Lines with the same source and tag become one pair with several references; a source has only one target that is
        a feature file. Blank lines are skipped. All feature files of a side must have the same columns, also in tables
        that were read before.

        Raises:
            UserError: ``file:line: problem`` for a bad line or a bad file in it; ``file: problem`` for a bad table.
        """
        pairs: dict[tuple[str, str], Pair] = {}
        rows = [row for row in read_text_rows(path) if row is not None and any(row.cells)]
        if rows and self._is_header(rows[0].cells, [row.cells for row in rows[1:]]):
            self.notes.append(header_note(path, rows.pop(0).cells))
        for row in rows:
            try:
                self._add_line(pairs, row.cells, path.parent)
            except UserError as error:
                hint = separator_hint(row.line) if len(row.cells) == 1 else ""
                raise UserError(f"{row.where}: {error}{hint}; the line is {quoted(row.line)}") from error
        if not pairs:
            raise UserError(f"{path}: holds no pairs; expected lines of {', a tab, '.join(self.columns)}")
        return pairs

    def _is_header(self, first: Sequence[str], following: Sequence[Sequence[str]]) -> bool:
        """Whether a table's first line names its columns; one of features has names of files instead of symbols."""
        if self.target == "features" or len(first) < 2:
            return are_column_names(first)
        unit = "words" if self.target == "ids" else self.target
        symbols = Counter(symbol for cells in following if len(cells) > 1 for symbol in split_text(cells[1], unit))
        return is_header(first, split_text(first[1], unit), symbols, self.known_targets)

    def _add_line(self, pairs: dict[tuple[str, str], Pair], cells: Sequence[str], folder: Path) -> None:
        if len(cells) != len(self.columns):
            expected = ", a tab, ".join(self.columns)
            hint = "; if the third is a tag, set task.tagged=true" if len(cells) == 3 else ""
            raise UserError(f"{count_phrase(len(cells), 'column')}; expected {expected}{hint}")
        if "" in cells:
            index = cells.index("")
            raise UserError(f"column {index + 1} is empty; expected {self.columns[index]}")
        source, target, tag = (*cells, "")[:3]
        symbols = () if self.source == "features" else split_text(source, self.source)
        name = source if self.source == "features" else join_symbols(symbols, self.source)
        earlier = pairs.get((name, tag))
        if earlier and self.target == "features":
            raise UserError(f"a second target of {name!r}; a source has only one if targets are features; remove one")
        pair = earlier or Pair(symbols, (), tag).identified_by(split_text(source, "words"))
        if earlier is None and self.source == "features":
            matrix = self.sources.read(folder / source)
            pair = Pair(matrix.steps, (), tag, features=matrix.features, name=source)
        if self.target == "features":
            matrix = self.targets.read(folder / target)
            pair = pair._replace(references=(matrix.steps,), target=matrix.features)
        else:
            references = dict.fromkeys([*pair.references, split_text(target, self.target)])
            pair = pair._replace(references=tuple(references))
        pairs[name, tag] = pair

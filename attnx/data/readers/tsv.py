"""Tab-separated lines, each a source and its target: texts, whole numbers, or the name of a file of features."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from attnx.data.examples import Pair, Symbols
from attnx.data.readers.feature_matrices import Recordings
from attnx.data.readers.lines import read_lines, refuse_header
from attnx.errors import UserError
from attnx.files.printable import quoted

Cut = Literal["characters", "words", "ids"]
Held = Literal["characters", "words", "ids", "features"]
SAID = {"characters": "a text", "words": "a text", "ids": "whole numbers", "features": "a file of features"}


def cut(text: str, how: Cut) -> Symbols:
    """Cut a text into symbols.

    Args:
        text: a field of a table, or what a user asks.
        how: ``characters`` are code points, spaces included. ``words`` are whatever has spaces between. ``ids`` are
            words that are whole numbers; 7 and 007 are the same one.

    Raises:
        UserError: an id is none.

    >>> cut("3 May", "characters"), cut("x  = 3", "words"), cut("1041 007", "ids")
    (('3', ' ', 'M', 'a', 'y'), ('x', '=', '3'), ('1041', '7'))
    """
    if how == "characters":
        return tuple(text)
    words = text.split()
    if how == "words":
        return tuple(words)
    if wrong := next((word for word in words if not re.fullmatch("[0-9]+", word)), None):
        raise UserError(f"{wrong!r} is no id: ids are whole numbers, 0 or more, with spaces between")
    return tuple(word.lstrip("0") or "0" for word in words)


def join(symbols: Symbols, how: Cut) -> str:
    """Write symbols as the text they were cut from, with single spaces."""
    return ("" if how == "characters" else " ").join(symbols)


class Table:
    """How the lines of a table are read: a source, a tab, its target, and if ``tagged`` a tab and a tag.

    Args:
        source: how the first column is cut; ``features`` means that it names a file, seen from the table's own folder.
        target: how the second column is cut, likewise.
        tagged: whether there is a third column, a language or whatever else the model is to be told.
        step_names: of the sources' files, as in :func:`attnx.data.readers.feature_matrices.read_matrix`.
        target_step_names: of the targets' files.
        trained: the columns of the files that a run was trained on, of its sources and of its targets; empty if
            they have no names.
    """

    def __init__(
        self,
        source: Held,
        target: Held,
        tagged: bool = False,
        step_names: str | None = None,
        target_step_names: str | None = None,
        trained: tuple[Symbols, Symbols] = ((), ()),
    ) -> None:
        self.source, self.target = source, target
        self.sources, self.targets = Recordings(step_names, trained[0]), Recordings(target_step_names, trained[1])
        self.columns = [SAID[source], SAID[target], *(["a tag"] if tagged else [])]

    def read(self, path: Path) -> dict[tuple[str, str], Pair]:
        """Read a UTF-8 file, plain or ``.gz``: a pair for each (source as text, tag), in the order of the file.

        Lines with the same source and tag become one pair with several references; of targets that are files of
        features each source may have one. Blank lines are skipped. All files of features on a side must have the same
        columns, those of tables read before included.

        Raises:
            UserError: ``file:line: what is wrong`` for a bad line, also if what it names is bad; ``file: what is
                wrong`` for a bad file.
        """
        found: dict[tuple[str, str], Pair] = {}
        for number, line in read_lines(path):
            if not line.strip():
                continue
            if number == 1:
                refuse_header([field.strip() for field in line.split("\t")], f"{path}:{number}")
            try:
                self._add(found, line, path.parent)
            except UserError as error:
                raise UserError(f"{path}:{number}: {error}; the line is {quoted(line)}") from error
        if not found:
            raise UserError(f"{path}: holds no pairs; expected lines of {', a tab, '.join(self.columns)}")
        return found

    def _add(self, found: dict[tuple[str, str], Pair], line: str, folder: Path) -> None:
        source, target, tag = self._split(line)
        symbols = () if self.source == "features" else cut(source, self.source)
        name = source if self.source == "features" else join(symbols, self.source)
        known = found.get((name, tag))
        if known and self.target == "features":
            raise UserError(f"a second target of {name!r}, but a source has one if targets are features; leave one out")
        pair = known or self._read(source, symbols, tag, folder)
        if self.target == "features":
            written = self.targets.read(folder / target)
            pair = pair._replace(references=(written.steps,), target=written.features)
        else:
            references = dict.fromkeys([*pair.references, cut(target, self.target)])
            pair = pair._replace(references=tuple(references))
        found[name, tag] = pair

    def _read(self, source: str, symbols: Symbols, tag: str, folder: Path) -> Pair:
        """A pair that has no reference yet."""
        if self.source != "features":
            return Pair(symbols, (), tag)
        recording = self.sources.read(folder / source)
        return Pair(recording.steps, (), tag, features=recording.features, name=source)

    def _split(self, line: str) -> tuple[str, str, str]:
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != len(self.columns):
            expected = ", a tab, ".join(self.columns)
            hint = "; if the third is a tag, set task.tagged=true" if len(fields) == 3 else ""
            raise UserError(f"{len(fields)} column{'s' * (len(fields) > 1)}; expected {expected}{hint}")
        if "" in fields:
            place = fields.index("")
            raise UserError(f"column {place + 1} is empty; expected {self.columns[place]}")
        source, target, *tags = fields
        return source, target, "".join(tags)

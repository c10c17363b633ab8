"""Reads what is to be predicted, line by line: texts, columns of a table, or the names of files of features."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.features import Features
from attnx.data.readers.feature_files import READERS
from attnx.data.readers.feature_matrices import Recordings
from attnx.data.readers.lines import bounded_lines, decode_line, raw_lines
from attnx.errors import UserError

if TYPE_CHECKING:  # torch is not waited for until all that is asked was checked
    from attnx.inference.trained_run import OpenRun, Unknown


class InputOptions(NamedTuple):
    """How lines are read.

    Attributes:
        file: where they come from; None for standard input.
        column: which one of a tab-separated line is the source, counted from 1; None for the whole line.
        tag: the language of every line.
        tag_column: which column holds it instead.
        unknown: what to do with unknown source symbols.
    """

    file: Path | None = None
    column: int | None = None
    tag: str = ""
    tag_column: int | None = None
    unknown: Unknown = "replace"

    @property
    def name(self) -> str:
        """What stands before the number of a line in a message."""
        return "standard input" if self.file is None else str(self.file)

    @property
    def one_matrix(self) -> bool:
        """Whether the file's name says that it is a matrix of features itself, and no list of such files."""
        return self.file is not None and self.file.suffix in READERS


class Line(NamedTuple):
    """One line that was read.

    Attributes:
        number: from 1.
        pair: what is to be decoded; None for an empty line, or one that cannot be read.
        mistake: what is wrong with it, with its place; "" if nothing is.
    """

    number: int
    pair: Pair | None = None
    mistake: str = ""


def reads_files(config: Mapping[str, Any]) -> bool:
    """Whether the sources of a run with this configuration are files of numbers, and lines are their names."""
    task = config["task"]
    declared = registry.part("task", task["name"]).declares
    return task.get("source") == "features" or bool(declared.get("reads_files"))


def lines_of(asked: InputOptions, features: bool) -> Iterator[tuple[int, bytes]]:
    """The lines as they stand, with their numbers; a file of features given by itself is one line, its name.

    Raises:
        UserError: the file cannot be read.
    """
    if asked.file is None:
        yield from bounded_lines(sys.stdin.buffer, asked.name)
    elif features and asked.one_matrix:
        yield 1, asked.file.name.encode()
    else:
        yield from raw_lines(asked.file)


class Reader:
    """Makes pairs of lines.

    Args:
        run: what they are for.
        asked: how they are read.
    """

    def __init__(self, run: OpenRun, asked: InputOptions) -> None:
        self.run, self.asked = run, asked
        self.folder = Path() if asked.file is None else asked.file.parent
        self.features = reads_files(run.config)
        trained = run.source.columns if isinstance(run.source, Features) else ()
        self.recordings = Recordings(run.config["task"].get("step_names"), trained)
        if asked.tag_column is None:
            run.check_tag(asked.tag)
        elif not run.experiment.data.tags:
            raise UserError(f"--tag-column {asked.tag_column}: this run knows no tags; leave it out")

    def read(self, number: int, raw: bytes) -> Line:
        """Read a line; a mistake in it is noted, not raised."""
        where = f"{self.asked.name}:{number}"
        try:
            text = decode_line(raw, where, first=number == 1)
        except UserError as error:
            return Line(number, mistake=str(error))
        if not text.strip():
            return Line(number)
        try:
            return Line(number, self.pair(*self._columns(text)))
        except UserError as error:
            return Line(number, mistake=f"{where}: {error}")

    def pair(self, source: str, tag: str) -> Pair:
        """What is decoded for a text, or for the name of a file of features.

        Raises:
            UserError: it cannot be read, or the tag is unknown.
        """
        self.run.check_tag(tag)
        if not self.features:
            return self.run.pair(source, tag, self.asked.unknown)
        if hasattr(self.run.experiment.task, "read"):
            read: Pair = self.run.experiment.task.read(self.folder / source)
            return read._replace(name=source)
        recording = self.recordings.read(self.folder / source)
        pair = self.run.pair(recording.features, tag)
        return pair._replace(source=recording.steps, name=source)

    def _columns(self, text: str) -> tuple[str, str]:
        """The source and its tag."""
        column, tag_column = self.asked.column, self.asked.tag_column
        if column is None and tag_column is None:
            return text.strip(), self.asked.tag  # as the tables that training reads
        fields = text.split("\t")
        found = []
        for flag, place in (("--column", column or 1), ("--tag-column", tag_column)):
            if place is not None and place > len(fields):
                raise UserError(f"{len(fields)} column{'s' * (len(fields) > 1)}, but {flag} {place} is asked for")
            found.append(self.asked.tag if place is None else fields[place - 1].strip())
        source, tag = found
        if not source:
            raise UserError(f"column {column or 1} is empty")
        return source, tag

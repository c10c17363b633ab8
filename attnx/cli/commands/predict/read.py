"""The input of ``attnx predict``, line by line: texts, columns of a table, or names of feature files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.readers.feature_matrices import READERS, MatrixReader
from attnx.data.readers.lines import bounded_lines, decode_line, raw_lines
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.printable import printable, quoted

if TYPE_CHECKING:  # torch is loaded after all arguments were checked
    from attnx.inference.trained_run import TrainedRun, Unknown

MAX_UNKNOWN_SHOWN = 8


class InputOptions(NamedTuple):
    """How lines are read: the file (None for standard input), and ``column`` and ``tag_column`` of a table, from 1."""

    file: Path | None = None
    column: int | None = None
    tag: str = ""
    tag_column: int | None = None
    unknown: Unknown = "replace"

    @property
    def name(self) -> str:
        """The name before a line number in messages."""
        return "standard input" if self.file is None else str(self.file)


class ParsedLine(NamedTuple):
    """A line, numbered from 1: an example, nothing if it is empty, or the error, with its place."""

    line_number: int
    pair: Pair | None = None
    error: str = ""


class LineReader:
    """Converts lines to examples of a run.

    Attributes:
        has_feature_files: whether the sources of the run are feature files, so that lines are their names.
        unknown_symbols: source symbols that were replaced by the unknown symbol, in the order of their first lines.
        num_unknown: the number of lines with such a symbol.
    """

    def __init__(self, run: TrainedRun, options: InputOptions) -> None:
        self.run, self.options = run, options
        task = run.config["task"]
        self.unknown_symbols: dict[str, None] = {}
        self.num_unknown = 0
        self.folder = Path() if options.file is None else options.file.parent
        declared = registry.describe("task", task["name"]).declarations
        self.has_feature_files = task.get("source") == "features" or bool(declared.get("has_file_inputs"))
        # Whether the file is a source itself, and not a list of sources.
        self.is_feature_file = self.has_feature_files and options.file is not None and not self._is_list(options.file)
        columns, width = (run.source.columns, run.source.width) if isinstance(run.source, FeatureScaler) else ((), None)
        self.recordings = MatrixReader(task.get("step_names"), columns, width)
        if options.tag_column is None:
            run.check_tag(options.tag)
        elif not run.tags:
            raise UserError(f"--tag-column {options.tag_column}: this run knows no tags; leave it out")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers; a feature file itself is one line, its name.

        Raises:
            UserError: the file cannot be read.
        """
        if self.options.file is None:
            yield from bounded_lines(sys.stdin.buffer, self.options.name)
        elif self.is_feature_file:
            yield 1, self.options.file.name.encode()
        else:
            yield from raw_lines(self.options.file)

    def read(self, line_number: int, raw: bytes) -> ParsedLine:
        """Read a line; an error in it is returned, not raised."""
        place = f"{self.options.name}:{line_number}"
        location = "" if self.is_feature_file else f"{place}: "  # the errors of a feature file name it themselves
        try:
            text = decode_line(raw, place, is_first=line_number == 1)
        except UserError as error:
            return ParsedLine(line_number, error=str(error))
        if not text.strip():
            return ParsedLine(line_number)
        try:
            pair = self.pair(*self._columns(text))
        except UserError as error:
            return ParsedLine(line_number, error=f"{location}{error}")
        except OSError as error:  # a file without permission
            return ParsedLine(line_number, error=f"{location}{quoted(text)}: cannot be read: {error.strerror}")
        if self.options.unknown == "replace" and not isinstance(self.run.source, FeatureScaler):
            from attnx.inference.unk_replacement import unknown_positions  # imports torch

            symbols = dict.fromkeys(
                pair.source[position] for position in unknown_positions(pair.source, self.run.source)
            )
            self.unknown_symbols |= symbols
            self.num_unknown += bool(symbols)
        return ParsedLine(line_number, pair)

    @property
    def unknown_note(self) -> str:
        """How many lines hold unknown symbols, and some of them."""
        symbols = [*self.unknown_symbols]
        ellipsis = " ..." if len(symbols) > MAX_UNKNOWN_SHOWN else ""
        return (
            f"{count_phrase(self.num_unknown, 'line')} with symbols that this run does not know, read as the unknown "
            f"symbol: {' '.join(symbols[:MAX_UNKNOWN_SHOWN])}{ellipsis}"
        )

    def pair(self, source: str, tag: str) -> Pair:
        """The example of a text, or of the name of a feature file.

        Raises:
            UserError: it cannot be read, or the tag is unknown.
        """
        self.run.check_tag(tag)
        if not self.has_feature_files:
            return self.run.pair(source, tag, self.options.unknown)
        if (example := self.run.task.read_source(self.folder / source)) is not None:
            for note in self.run.task.notes:
                print(f"attnx: {printable(note)}", file=sys.stderr)
            return example._replace(name=source)
        recording = self.recordings.read(self.folder / source)
        pair = self.run.pair(recording.features, tag)
        return pair._replace(source=recording.steps, name=source)

    def _is_list(self, file: Path) -> bool:
        """Whether the first line of a file is the name of one, there or not."""
        if file.suffix in READERS:
            return False
        if not file.is_file():  # a pipe can be read only once
            return True
        try:
            line_number, raw = next(raw_lines(file))
            name, _ = self._columns(decode_line(raw, f"{file}:{line_number}", is_first=True))
        except (StopIteration, UserError):  # which reading it as a list says
            return True
        return os.path.exists(self.folder / name) or Path(name).suffix in READERS

    def _columns(self, text: str) -> tuple[str, str]:
        """The source and its tag."""
        column, tag_column = self.options.column, self.options.tag_column
        if column is None and tag_column is None:
            return text.strip(), self.options.tag
        fields = text.split("\t")
        values = []
        for flag, index in (("--column", column or 1), ("--tag-column", tag_column)):
            if index is not None and index > len(fields):
                raise UserError(f"{count_phrase(len(fields), 'column')}, but {flag} is {index}")
            values.append(self.options.tag if index is None else fields[index - 1].strip())
        source, tag = values
        if not source:
            raise UserError(f"column {column or 1} is empty")
        return source, tag

"""What a run predicted in its test or on other data: predictions.tsv, its fields, and evaluations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping, read_text
from attnx.files.parse_number import MAX_DIGITS
from attnx.files.printable import printable
from attnx.runs.info import check_format
from attnx.runs.layout import EVALUATION, PREDICTIONS, RUN_JSON
from attnx.runs.run import Run, read_run

if TYPE_CHECKING:
    from attnx.data.examples import Symbols  # imports numpy, which a command that forks may not do yet

COLUMNS = ("source", "prediction", "references", "edits")


class PredictionRow(NamedTuple):
    """One line of predictions.tsv, split into symbols; ``tag`` and ``name`` are "" without.

    ``texts`` are the references as text, split at spaces, where a run's metrics read text.
    """

    source: Symbols
    output: Symbols
    references: tuple[Symbols, ...]
    edits: int
    tag: str = ""
    name: str = ""
    texts: tuple[Symbols, ...] = ()


class Evaluation(Run):
    """An evaluation of a run on other data, read like a run."""

    @cached_property
    def info(self) -> dict[str, Any]:
        """The content of evaluation.json."""
        info = read_mapping(self.path / EVALUATION)
        check_format(self.path / EVALUATION, info.get("format"))
        return info

    @property
    def name(self) -> str:
        """The run's name and the evaluation's."""
        return f"{self.info.get('run', '')}/{self.path.resolve().name}".strip("/")

    @property
    def evaluated_run(self) -> Run:
        """The run that was evaluated, or an ensemble's first."""
        return Run(self.path.resolve().parents[1])


def is_evaluation(folder: Path) -> bool:
    """Whether a folder holds an evaluation, and not a run."""
    return (folder / EVALUATION).is_file() and not (folder / RUN_JSON).is_file()


def read_run_or_evaluation(folder: Path | str) -> Run:
    """Read a run folder, or an evaluation of a run."""
    path = Path(folder)
    return Evaluation(path).load() if is_evaluation(path) else read_run(path)


def has_symbol_predictions(folder: Path | str) -> bool:
    """Whether a folder holds predictions that are symbols, and not numbers or none."""
    path = Path(folder) / PREDICTIONS
    return path.is_file() and "edits" in read_text(path).partition("\n")[0].split("\t")


def read_predictions(folder: Path | str) -> list[PredictionRow]:
    """Read predictions.tsv of a run folder.

    Raises:
        UserError: there is no such file, it holds numbers, or a line of it is not of the format.
    """
    path = Path(folder) / PREDICTIONS
    if not path.is_file():
        raise UserError(f"{path}: no such file; it is written when a run is tested")
    columns, rows = read_table(path)
    if missing := [name for name in COLUMNS if name not in columns]:
        raise UserError(f"{path}:1: no column {missing[0]!r}; this run's predictions are numbers, not symbols")
    return [
        PredictionRow(
            read_symbols(row["source"]),
            read_symbols(row["prediction"]),
            _parse_several(row["references"]),
            parse_edits(row, f"{path}:{line}"),
            read_field(row.get("tag", "")),
            read_field(row.get("name", "")),
            _parse_several(row["texts"]) if row.get("texts") else (),
        )
        for line, row in enumerate(rows, start=2)
    ]


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Read predictions.tsv: the names of its columns, and the unparsed fields of each line by column.

    Raises:
        UserError: it is not text, or a line has too many fields or too few.
    """
    columns, *lines = (line.split("\t") for line in read_text(path).rstrip("\n").split("\n"))
    for line, fields in enumerate(lines, start=2):
        if len(fields) != len(columns):
            raise UserError(f"{path}:{line}: {len(fields)} columns where {len(columns)} were expected")
    return columns, [dict(zip(columns, fields, strict=True)) for fields in lines]


def parse_edits(row: Mapping[str, str], where: str) -> int:
    """The number of edits in a line.

    Raises:
        UserError: it is no whole number; ``where`` is the file and the line.
    """
    if not (row["edits"].isdecimal() and len(row["edits"]) <= MAX_DIGITS):
        raise UserError(f"{where}: edits must be a whole number, not {row['edits']!r}")
    return int(row["edits"])


def _parse_several(field: str) -> tuple[Symbols, ...]:
    return tuple(map(read_symbols, field.split(" | ")))


# Written for a space within a symbol; and what separates references.
SPACE, BAR = "␣", "|"
SIGNS: Final = str.maketrans({"\\": "\\\\", SPACE: f"\\{SPACE}", " ": SPACE})
ESCAPED: Final = re.compile(rf"\\(?:x([0-9a-f]{{2}})|u([0-9a-f]{{4}})|([tnr])|([\\|{SPACE}]))")
SPACE_OR_ESCAPED: Final = re.compile(f"{ESCAPED.pattern}|{SPACE}")
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r"}


def write_symbols(symbols: Iterable[str]) -> str:
    r"""Write symbols as a table field, separated by spaces; a space within a symbol is written ``␣``, as in pictures.

    A ``␣`` or backslash within a symbol, and the symbol ``|``, which separates references, get a backslash in front.
    Unprintable characters are written ``\x1b``, ``\u202e``, ``\t``.

    >>> print(write_symbols(["3", " ", "May", "|", "1 ␣", "\x1b[1m"]))
    3 ␣ May \| 1␣\␣ \x1b[1m
    """
    return " ".join(r"\|" if symbol == BAR else printable(symbol.translate(SIGNS)) for symbol in symbols)


def read_symbols(field: str) -> tuple[str, ...]:
    """Read symbols that :func:`write_symbols` wrote."""
    return tuple(SPACE_OR_ESCAPED.sub(_unescape, word) for word in field.split(" ") if word)


def write_field(text: str) -> str:
    r"""Write a name or a tag as a table field, with its spaces unchanged.

    >>> print(write_field("a b\\c\x1b"))
    a b\\c\x1b
    """
    return printable(text.replace("\\", "\\\\"))


def read_field(field: str) -> str:
    """Read a text that :func:`write_field` wrote."""
    return ESCAPED.sub(_unescape, field)


def _unescape(match: re.Match[str]) -> str:
    if match[0] == SPACE:
        return " "
    code, control = match[1] or match[2], match[3]
    return chr(int(code, 16)) if code else CONTROLS[control] if control else match[4]

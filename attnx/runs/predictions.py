"""Reads what a run predicted, in its test or in an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from attnx.data.examples import Symbols
from attnx.data.special_tokens import tag_symbol
from attnx.errors import UserError
from attnx.files.bounded_files import read_text
from attnx.runs.layout import EVALUATION, FORMAT, PREDICTIONS, RUN, read_field, read_symbols
from attnx.runs.run import Run, mapping, read_measured, read_run

COLUMNS = ("source", "prediction", "references", "edits")


class Prediction(NamedTuple):
    """One line of predictions.tsv, cut into symbols; ``tag`` and ``name`` are "" where there are none.

    ``texts`` are the references as they were written, cut at spaces, where a run's metrics read text.
    """

    source: Symbols
    output: Symbols
    references: tuple[Symbols, ...]
    edits: int
    tag: str = ""
    name: str = ""
    texts: tuple[Symbols, ...] = ()

    @property
    def untagged_source(self) -> Symbols:
        """The source without the symbol that names its language."""
        return self.source[self.source[:1] == (tag_symbol(self.tag),) :]


def read_outcome(folder: Path | str) -> Run:
    """Read a run folder, or an evaluation of a run as if it were one.

    Raises:
        UserError: it is neither, a file of it cannot be read, or its format is too new.
    """
    path = Path(folder)
    return read_evaluation(path) if (path / EVALUATION).is_file() and not (path / RUN).is_file() else read_run(path)


def read_evaluation(folder: Path) -> Run:
    """Read an evaluation; it goes by its run's name and its own.

    Raises:
        UserError: a file of it cannot be read, or its format is too new.
    """
    info = mapping(folder / EVALUATION)
    number = info.get("format")
    if type(number) is not int or not 1 <= number <= FORMAT:
        raise UserError(f"{folder / EVALUATION}: format {number!r} is not one of 1 to {FORMAT}, which are known here")
    name = f"{info.get('run', '')}/{folder.resolve().name}".strip("/")
    return Run(folder, {**info, "name": name}, {}, *read_measured(folder))


def run_folder(folder: Path) -> Path:
    """The run's own folder, of a run or of an evaluation in it."""
    return folder if (folder / RUN).is_file() else folder.resolve().parents[1]


def wrote_symbols(folder: Path | str) -> bool:
    """Whether a run folder holds predictions that are symbols: not those of a run that was not tested, or of numbers.

    Raises:
        UserError: predictions.tsv is no text.
    """
    path = Path(folder) / PREDICTIONS
    return path.is_file() and "edits" in read_text(path).partition("\n")[0].split("\t")


def read_predictions(folder: Path | str) -> list[Prediction]:
    """Read predictions.tsv of a run folder.

    Raises:
        UserError: there is no such file, it holds numbers, or a line of it is not of the format.
    """
    path = Path(folder) / PREDICTIONS
    if not path.is_file():
        raise UserError(f"{path}: no such file; it is written when a run is tested")
    columns, rows = read_table(path)
    if missing := [name for name in COLUMNS if name not in columns]:
        raise UserError(f"{path}:1: no column {missing[0]!r}; this run did not write symbols")
    return [_prediction(row, f"{path}:{number}") for number, row in enumerate(rows, start=2)]


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Read predictions.tsv as it stands: the names of its columns, and of each line its fields by these.

    Raises:
        UserError: it is no text, or a line has too many fields or too few.
    """
    columns, *lines = (line.split("\t") for line in read_text(path).rstrip("\n").split("\n"))
    for number, fields in enumerate(lines, start=2):
        if len(fields) != len(columns):
            raise UserError(f"{path}:{number}: {len(fields)} columns where {len(columns)} were expected")
    return columns, [dict(zip(columns, fields, strict=True)) for fields in lines]


def _prediction(row: dict[str, str], where: str) -> Prediction:
    if not row["edits"].isdecimal():
        raise UserError(f"{where}: edits must be a whole number, not {row['edits']!r}")
    return Prediction(
        read_symbols(row["source"]),
        read_symbols(row["prediction"]),
        _several(row["references"]),
        int(row["edits"]),
        read_field(row.get("tag", "")),
        read_field(row.get("name", "")),
        _several(row["texts"]) if row.get("texts") else (),
    )


def _several(field: str) -> tuple[Symbols, ...]:
    return tuple(map(read_symbols, field.split(" | ")))

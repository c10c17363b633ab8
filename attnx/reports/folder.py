"""Reads what a run predicted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.read_run import read_text
from attnx.run_format import PREDICTIONS


class Prediction(NamedTuple):
    """One line of predictions.tsv, cut into symbols; ``tag`` is "" where there is only one."""

    source: tuple[str, ...]
    output: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    edits: int
    tag: str = ""


def read_predictions(folder: Path | str) -> list[Prediction]:
    """Read predictions.tsv of a run folder.

    Raises:
        UserError: there is no such file, or a line of it is not of the format.
    """
    path = Path(folder) / PREDICTIONS
    if not path.is_file():
        raise UserError(f"{path}: no such file; it is written when a run is tested")
    lines = enumerate(read_text(path).rstrip("\n").split("\n"), start=1)
    next(lines)
    return [_prediction(line, f"{path}:{number}") for number, line in lines]


def _prediction(line: str, where: str) -> Prediction:
    fields = line.split("\t")
    if len(fields) not in (5, 6):  # the tag is written where there are tags
        raise UserError(f"{where}: {len(fields)} columns where 5 or 6 were expected")
    source, output, references, edits, _, *tag = fields
    if not edits.isdecimal():
        raise UserError(f"{where}: edits must be a whole number, not {edits!r}")
    return Prediction(
        tuple(_symbols(source)),
        tuple(_symbols(output)),
        tuple(tuple(_symbols(reference)) for reference in references.split(" | ")),
        int(edits),
        *tag,
    )


def _symbols(text: str) -> Iterator[str]:
    return (symbol for symbol in text.split(" ") if symbol)

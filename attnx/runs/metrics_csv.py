"""Reads metrics.csv: the values of each column by optimizer step."""

from __future__ import annotations

from pathlib import Path

from attnx.errors import UserError
from attnx.files.bounded_files import read_rows
from attnx.runs.layout import METRICS

STEP = "step"
Curve = dict[int, float]


def read_curves(folder: Path) -> dict[str, Curve]:
    """Read column -> step -> value of the filled cells; of a step logged twice, as on resuming, the later row counts.

    A column without values is an empty curve; without metrics.csv there are no columns.

    Raises:
        UserError: the file is not CSV, or a cell is not a number.
    """
    path = folder / METRICS
    curves: dict[str, Curve] = {}
    for line, row in enumerate(read_rows(path) if path.is_file() else (), start=2):
        for column, text in row.items():
            curve = curves.setdefault(column, {})
            if text:
                curve[_step(row.get(STEP, ""), f"{path}:{line}")] = _number(text, f"{path}:{line}", column)
    curves.pop(STEP, None)
    return curves


def _step(text: str, where: str) -> int:
    step = _number(text, where, STEP)
    if not step.is_integer():
        raise UserError(f"{where}: {STEP} must be a whole number, not {text[:40]!r}")
    return int(step)


def _number(text: str, where: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{where}: {column} must be a number, not {text[:40]!r}") from None

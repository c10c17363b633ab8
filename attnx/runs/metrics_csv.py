"""The format of metrics.csv: a row at some optimizer steps, with the cells that were measured there."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from attnx.errors import UserError
from attnx.files.bounded_files import read_rows
from attnx.runs.layout import METRICS

STEP = "step"
VALID = "valid_"  # how the columns of validations begin
Curve = dict[int, float]


def read_curves(folder: Path) -> dict[str, Curve]:
    """Read column -> step -> value of the filled cells; the later row of a step logged twice, as on resuming, counts.

    A column without values is an empty curve; without metrics.csv there are no columns.

    Raises:
        UserError: the file is not CSV, or a cell is not a number.
    """
    path = folder / METRICS
    curves: dict[str, Curve] = {}
    for line, row in enumerate(read_rows(path) if path.is_file() else (), start=2):
        try:
            step = _step(row.pop(STEP, "")) if any(row.values()) else 0
            for column, text in row.items():
                curve = curves.setdefault(column, {})
                if text:
                    curve[step] = _number(text, column)
        except ValueError as error:
            raise UserError(f"{path}:{line}: {error}") from None
    return curves


def with_row(text: str, row: Mapping[str, str]) -> str:
    r"""The text of the file with another row; new columns come last, with empty cells in the rows before.

    >>> with_row(with_row("", {"step": "5"}), {"step": "7", "valid_loss": "2.5"})
    'step,valid_loss\r\n5,\r\n7,2.5\r\n'
    """
    head, *lines = text.removesuffix("\r\n").split("\r\n")  # a name may hold other ends of lines
    columns = next(csv.reader([head]), [])
    added = [name for name in row if name not in columns]
    columns += added
    lines = [line + "," * len(added) for line in lines] if added else lines
    cells = ",".join(row.get(name, "") for name in columns)
    heading = io.StringIO()
    csv.writer(heading).writerow(columns)  # a column is named after a tag, in which a comma may be
    return heading.getvalue() + "".join(f"{line}\r\n" for line in (*lines, cells))


def _step(text: str) -> int:
    step = _number(text, STEP)
    if not step.is_integer():
        raise ValueError(f"{STEP} must be a whole number, not {text[:40]!r}")
    return int(step)


def _number(text: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{column} must be a number, not {text[:40]!r}") from None

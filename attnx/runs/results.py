"""What a run measured: results.json, cost.json and metrics.csv, the curves of training."""

from __future__ import annotations

import csv
import io
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping, read_rows
from attnx.runs.info import check_format
from attnx.runs.layout import BASELINES, COST, INTERVALS, METRICS, RESULTS, SIGNATURES

CONTEXTS = (128, 512, 2048, 8192)
"""How many positions a decoded token may read, for which its cost is given: ``decode_flops_128`` and so on."""

MEASURED = ("decode_ms_", "decode_memory_mb_")  # the beginnings of names in cost.json


class Interval(NamedTuple):
    """The two ends of a 95 % confidence interval."""

    low: float
    high: float


class BaselineDifference(NamedTuple):
    """A metric of a run minus a baseline's on the same examples, and its 95 % interval."""

    difference: float
    low: float
    high: float


class Results(NamedTuple):
    """The content of results.json."""

    numbers: dict[str, Any]  #: the metrics; None for what could not be measured
    intervals: Mapping[str, Interval]  #: by metric
    baselines: Mapping[str, Mapping[str, BaselineDifference]]  #: the differences, by baseline and metric
    signatures: Mapping[str, str]  #: exact definitions, by metric


def read_results(folder: Path) -> Results:
    """Read results.json; empty without the file."""
    file = folder / RESULTS
    numbers = read_mapping(file)
    intervals, baselines, signatures = (_pop_section(file, numbers, key) for key in (INTERVALS, BASELINES, SIGNATURES))
    for name, value in numbers.items():
        if type(value) not in (int, float, type(None)):
            raise UserError(f"{file}: {name}: expected a number, found a {type(value).__name__}")
    for name, value in signatures.items():
        if not isinstance(value, str):
            raise UserError(f"{file}: {SIGNATURES}: {name}: expected a text, found {reprlib.repr(value)}")
    return Results(
        numbers,
        {name: Interval(*_numbers(file, name, value, 2)) for name, value in intervals.items()},
        {
            baseline: {
                metric: BaselineDifference(*_numbers(file, metric, value, 3))
                for metric, value in _pop_section(file, baselines.copy(), baseline).items()
            }
            for baseline in baselines
        },
        signatures,
    )


def read_costs(folder: Path) -> dict[str, float]:
    """The numbers of cost.json by name, ``decode_ms_128``; empty without the file.

    Raises:
        UserError: it is damaged, or newer.
    """
    content = read_mapping(folder / COST)
    if content:
        check_format(folder / COST, content.pop("format", None))
    numbers = {name: value for name, value in content.items() if name.startswith(MEASURED)}
    for name, value in numbers.items():
        if type(value) not in (int, float):
            raise UserError(f"{folder / COST}: {name}: expected a number, found a {type(value).__name__}")
    return numbers


def _pop_section(file: Path, content: dict[str, Any], name: str) -> dict[str, Any]:
    section = content.pop(name, {})
    if not isinstance(section, dict):
        raise UserError(f"{file}: {name}: expected names with values, found a {type(section).__name__}")
    return section


def _numbers(file: Path, name: str, value: Any, count: int) -> list[float]:
    if isinstance(value, list) and len(value) == count and all(type(item) in (int, float) for item in value):
        return value
    raise UserError(f"{file}: {name}: expected {count} numbers, found {reprlib.repr(value)}")


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
            step_text = row.pop(STEP, "")
            step = _number(step_text, STEP) if step_text or any(row.values()) else 0.0
            if not step.is_integer():
                raise ValueError(f"{STEP} must be a whole number, not {step_text[:40]!r}")
            for column, text in row.items():
                curve = curves.setdefault(column, {})
                if text:
                    curve[int(step)] = _number(text, column)
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


def _number(text: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{column} must be a number, not {text[:40]!r}") from None

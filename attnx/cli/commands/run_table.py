"""Shows runs: a table as wide as the terminal, the same in plain text for pipes, and all of it as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from attnx.cli.commands.run_filters import written
from attnx.files.printable import printable, printable_json, text_for
from attnx.reports.significant_digits import format_value
from attnx.runs.find import Found
from attnx.sweeps.live_table import STYLES

ABSENT = "-"
GAP = 2
# Choices that say nothing of what is computed, or have a column of their own.
ASIDE = ("folder", "logger", "seed")
# The least that is left of a path where there is no room.
NARROWEST = 24
RANKS = {"run": 0, "status": 1, "test": 2, "valid": 3, "choice": 4, "begun": 5, "took": 6, "size": 7, "seed": 8}
STYLED = {**STYLES, "stopped": "yellow"}


class Column(NamedTuple):
    """A column; those of a high rank are left out first where there is no room; ``best`` are the rows to stress."""

    name: str
    cells: list[str]
    rank: float
    right: bool = False
    best: frozenset[int] = frozenset()

    @property
    def width(self) -> int:
        """Of its widest cell."""
        return max(map(cell_len, [self.name, *self.cells]))


def show(columns: Sequence[Column]) -> None:
    """Print columns: a terminal gets those there is room for, anything else all of them, in plain text."""
    console = Console()
    columns = [column._replace(cells=list(map(printable, column.cells))) for column in columns]
    columns = [column._replace(name=printable(column.name)) for column in columns]
    if not console.is_terminal:
        for line in plain(columns):
            print(line)
        return
    shown, hidden = fitting(columns, console.width)
    console.print(Segments(_styled(shown)), end="")
    if hidden:
        names = ", ".join(column.name for column in hidden)
        console.print(Text(f"no room for {names}: widen the terminal, or add --csv or --json", "dim"))


def plain(columns: Sequence[Column]) -> Iterator[str]:
    """Columns as lines, each as wide as its widest cell."""
    for cells in _padded(columns):
        yield (" " * GAP).join(cells).rstrip()


def _padded(columns: Sequence[Column]) -> Iterator[list[str]]:
    widths = [column.width for column in columns]
    for row in zip(*([column.name, *column.cells] for column in columns), strict=True):
        padded = []
        for column, width, cell in zip(columns, widths, row, strict=True):
            space = " " * (width - cell_len(cell))
            padded.append(space + cell if column.right else cell + space)
        yield padded


def _styled(columns: Sequence[Column]) -> Iterator[Segment]:
    """The same in colors; a table of rich's takes seconds for a thousand runs."""
    for number, cells in enumerate(_padded(columns), start=-1):
        for column, cell in zip(columns, cells, strict=True):
            stressed = number < 0 or number in column.best
            said = STYLED.get(cell.strip(), "") if column.name == "status" else "bold" if stressed else ""
            yield Segment(cell, Style.parse("bold" if number < 0 else said))
            yield Segment(" " * GAP if column is not columns[-1] else "\n")


def fitting(columns: Sequence[Column], room: int) -> tuple[list[Column], list[Column]]:
    """The columns that there is room for, and the others; the first two always stay, paths with their ends alone."""
    first, *others = columns
    free = room - min(first.width, NARROWEST)
    shown = {first.name}
    for column in sorted(others, key=lambda column: column.rank):
        if column.width + GAP > free and column.rank > RANKS["status"]:
            continue
        free -= column.width + GAP
        shown.add(column.name)
    free += min(first.width, NARROWEST)
    kept = [column for column in others if column.name in shown]
    return [_shortened(first, max(free, NARROWEST)), *kept], [column for column in others if column.name not in shown]


def _shortened(column: Column, width: int) -> Column:
    """With the ends of what is too long."""
    return column._replace(cells=[cell if len(cell) <= width else "…" + cell[1 - width :] for cell in column.cells])


def columns_of(runs: Sequence[Found]) -> list[Column]:
    """What a table shows of runs: of their choices those that differ."""

    def facts(name: str, told: Callable[[Any], str], of: Callable[[Found], Any], right: bool = False) -> Column:
        return Column(name, [ABSENT if of(run) is None else told(of(run)) for run in runs], RANKS[name], right)

    choices = [key for key in differing([run.choices for run in runs]) if key.split(".")[0] not in ASIDE]
    return [
        facts("run", str, lambda run: run.path),
        facts("status", str, lambda run: run.status),
        *_measures(runs),
        *(
            Column(key, [_choice(run.choices, key) for run in runs], RANKS["choice"] + number / 1000)
            for number, key in enumerate(choices)
        ),
        facts("seed", str, lambda run: run.choices.get("seed"), right=True),
        facts("begun", written, lambda run: run.begun),
        facts("took", span, lambda run: run.took, right=True),
        facts("size", weighed, lambda run: run.size, right=True),
    ]


def differing(choices: Sequence[dict[str, Any]]) -> list[str]:
    """The keys that have several values; a knob that some runs do not have at all differs among those that do."""
    held: dict[str, set[Any]] = {}
    for one in choices:
        for key, value in one.items():
            held.setdefault(key, set()).add(written(value) if isinstance(value, list | dict) else value)
    lacking = {key for key in held if "." not in key and any(key not in one for one in choices)}
    found = [key for key, values in held.items() if len(values) > 1 or key in lacking]
    return sorted(found, key=lambda key: "." in key)


def _choice(choices: dict[str, Any], key: str) -> str:
    return written(choices[key]) if key in choices else ABSENT


def _measures(runs: Sequence[Found]) -> list[Column]:
    """A column a measure of the test; and one of its validation where not all of the runs were tested."""
    found: list[Column] = []
    for monitor, maximize in dict.fromkeys((run.monitor, run.maximize) for run in runs if run.monitor):
        alike = {number: run for number, run in enumerate(runs) if (run.monitor, run.maximize) == (monitor, maximize)}
        tested = {number: run.run.results.get(run.test) for number, run in alike.items()}
        name = next(iter(alike.values())).test
        if any(value is not None for value in tested.values()):
            found.append(_measure(name, tested, len(runs), maximize, RANKS["test"]))
        if any(value is None for value in tested.values()):
            best = {number: run.best for number, run in alike.items()}
            found.append(_measure(monitor, best, len(runs), maximize, RANKS["valid"]))
    return found


def _measure(name: str, held: dict[int, Any], count: int, maximize: bool, rank: float) -> Column:
    known = {number: value for number, value in held.items() if isinstance(value, int | float) and value == value}
    best = (max if maximize else min)(known.values(), default=None)
    stressed = frozenset(number for number, value in known.items() if value == best) if len(known) > 1 else frozenset()
    cells = [format_value(float(known[number])) if number in known else ABSENT for number in range(count)]
    return Column(name, cells, rank, True, stressed)


def span(seconds: float) -> str:
    """A time in two units.

    >>> span(7), span(67), span(3 * 3600 + 600), span(2 * 86400 + 3600)
    ('7s', '1m07s', '3h10m', '2d01h')
    """
    whole = round(seconds)
    for unit, small, size, below in (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // below:02d}{small}"
    return f"{whole}s"


def weighed(size: float) -> str:
    """A number of bytes.

    >>> weighed(999), weighed(1_250_000), weighed(17_000_000_000)
    ('999 B', '1.2 MB', '17.0 GB')
    """
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size:.0f} B"


def as_json(runs: Sequence[Found]) -> str:
    """All that is known of runs: their facts, results, and configurations as they are."""
    rows = [{**facts_of(run), "results": run.run.results, "config": run.run.config} for run in runs]
    return printable_json(json.dumps(_finite(rows), indent=2, ensure_ascii=False, default=str))


def write_csv(runs: Sequence[Found]) -> None:
    """Print the same with a column for each result and each choice, by its dotted key."""
    rows = [{**facts_of(run), **run.run.results, **run.choices} for run in runs]
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else written(value) for key, value in row.items()} for row in rows)
    print(text_for(sys.stdout, lines.getvalue()), end="")


def facts_of(run: Found) -> dict[str, Any]:
    """What is known of a run beside its results and its configuration; times as they are in files."""
    return {
        "path": str(run.path),
        "name": run.run.info.get("name"),
        "status": run.status,
        "begun": run.begun and f"{run.begun:%Y-%m-%dT%H:%M:%S%z}",
        "took": run.took,
        "size": run.size,
        "monitor": run.monitor or None,
        "maximize": run.maximize,
        "best": run.best,
    }


def _finite(value: Any) -> Any:
    """Without numbers that JSON does not know."""
    match value:
        case dict():
            return {str(key): _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case datetime():
            return value.isoformat()
        case _:
            return value

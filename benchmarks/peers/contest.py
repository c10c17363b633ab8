"""Rounds in which all libraries are measured in turn, and the tables of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import TypedDict

from peers.environments import FailedError
from peers.neighbors import BUSY, watch_neighbors
from rich.console import Console
from rich.table import Table

Round = dict[str, float]
"""A number for every row that has one."""
Rounds = Sequence[Round]


class Row(TypedDict):
    """A row's median and its value in each round; None where it has none."""

    median: float
    rounds: list[float | None]


def measure_round(
    title: str,
    entrants: Mapping[str, Callable[[], float]],
    problems: dict[str, str],
    console: Console,
    unit: str = "{:.0f} words/s",
) -> tuple[Round, Round]:
    """Measure every row in turn: a number, words per second unless ``unit`` is another, and the CPUs others used.

    A row that fails is added to the problems and left out from then on.
    """
    measured: Round = {}
    busy: Round = {}
    for row in (row for row in entrants if row not in problems):
        cpus_used = watch_neighbors()
        try:
            with console.status(f"{title}: {row}"):
                measured[row] = entrants[row]()
        except FailedError as error:
            problems[row] = f"failed: {error}"
            continue
        line = f"{title}: {row}: {unit.format(measured[row])}"
        if (used := cpus_used()) is not None:
            busy[row] = used
            line += f", others used {used:.1f} CPUs" + (": disturbed" if used >= BUSY else "")
        console.print(line, highlight=False)
    return measured, busy


def measure_rounds(
    rounds: int,
    entrants: Mapping[str, Callable[[], float]],
    problems: dict[str, str],
    console: Console,
    unit: str = "{:.0f} words/s",
) -> tuple[Rounds, Rounds]:
    """Measure as :func:`measure_round`, in several rounds: the numbers of each, and the CPUs others used."""
    titles = [f"round {number} of {rounds}" for number in range(1, rounds + 1)]
    results = [measure_round(title, entrants, problems, console, unit) for title in titles]
    return [measured for measured, _ in results], [busy for _, busy in results]


def by_row(rounds: Rounds) -> dict[str, Row]:
    """Turn rounds of rows into rows of rounds."""
    rows = dict.fromkeys(chain.from_iterable(rounds))
    return {
        row: Row(
            median=median(speeds[row] for speeds in rounds if row in speeds),
            rounds=[speeds.get(row) for speeds in rounds],
        )
        for row in rows
    }


def table(title: str, rounds: Rounds, digits: int) -> Table:
    """One line per row: its median, then its rounds."""
    display = Table(title=title, title_justify="left")
    display.add_column("")
    for heading in ("median", *(f"round {number}" for number in range(1, len(rounds) + 1))):
        display.add_column(heading, justify="right")
    for name, row in by_row(rounds).items():
        cells = (row["median"], *row["rounds"])
        display.add_row(name, *("-" if cell is None else f"{cell:.{digits}f}" for cell in cells))
    return display


def show_trouble(problems: Mapping[str, str], busy_cpus: Rounds, console: Console) -> None:
    """Print the failures and the number of disturbed measurements."""
    for row, problem in problems.items():
        console.print(f"{row} {problem}", style="red", highlight=False, markup=False)
    if disturbed := sum(used >= BUSY for busy in busy_cpus for used in busy.values()):
        advice = "run it again on an idle machine"
        console.print(f"{disturbed} measurements were disturbed by other programs: {advice}", style="red")

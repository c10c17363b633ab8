"""The aims: a figure made of the rows of a section, its bound, and whether it is met."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gpu_sections import row_names
from gpu_sections.cases import Figures, Row

Rows = Mapping[str, Sequence[Row]]
"""The rows of each section."""
SLACK = 4.0
"""An error may be so many times the definition's in the same type, or the CPU's."""
ROUNDING = {"float32": 2e-5, "bfloat16": 2e-2}
"""Relative errors that are rounding, whatever the definition's are."""
MET, MISSED, NOT_RUN = "met", "missed", "not run"


class Verdict(NamedTuple):
    """An aim beside its figure."""

    aim: str
    bound: str
    figure: float | None
    verdict: str


class Aim(NamedTuple):
    """A bound of a figure, from below or from above."""

    name: str
    section: str
    figure: Callable[[Mapping[str, Figures]], float]
    """From the figures of the section's rows by name, without those not run; a KeyError if one is missing."""
    least: float = -math.inf
    most: float = math.inf

    def judge(self, rows: Rows) -> Verdict:
        """Compare the figure with its bound."""
        bound = f"at least {self.least:g}" if self.least > -math.inf else f"at most {self.most:g}"
        try:
            figure = self.figure({row.name: row.figures for row in rows.get(self.section, ()) if row.has_run})
        except (KeyError, ValueError):  # a row is missing, or there is none
            return Verdict(self.name, bound, None, NOT_RUN)
        return Verdict(self.name, bound, figure, MET if self.least <= figure <= self.most else MISSED)


def ratio(name: str, numerator: str, denominator: str, figures: Mapping[str, Figures]) -> float:
    """A figure of a row over the same figure of another row."""
    return figures[numerator][name] / figures[denominator][name]


def excess(error: str, reference: str, figures: Mapping[str, Figures]) -> float:
    """The largest error of all rows, relative to the error that it may have; a KeyError if a row failed."""
    return max(
        row[error] / max(SLACK * row[reference], ROUNDING[name.rpartition(", ")[2]]) for name, row in figures.items()
    )


def aims() -> Iterator[Aim]:
    """All aims, on an H100."""
    name = "largest error of a kernel, as a share of the rounding it may have"
    yield Aim(name, "kernels", partial(excess, row_names.ERROR, row_names.DEFINITION_ERROR), most=1.0)
    name = "largest difference from the CPU, as a share of float32's rounding"
    yield Aim(name, "agreement", partial(excess, row_names.ERROR, row_names.CPU_ERROR), most=1.0)
    yield from operator_aims()
    for row, schedule, least in (
        (row_names.ATTNX, "run then attend", 0.9),
        (row_names.WITH_GRAPHS, row_names.LOOP, 3.0),
    ):
        attnx, by_hand = (
            row_names.training_row(name, schedule, row_names.FLOAT32) for name in (row, row_names.BY_HAND)
        )
        speed = partial(ratio, row_names.WORDS, attnx, by_hand)
        yield Aim(f"{row}, {schedule}: times the loop by hand", "training", speed, least)
    loop = row_names.training_row(row_names.WITH_GRAPHS, row_names.LOOP, row_names.FLOAT32)
    yield Aim(f"idle %, {loop}", "idle", lambda figures: figures[loop][row_names.IDLE], most=10)


def operator_aims() -> Iterator[Aim]:
    """The aims of additive attention, forward and backward, at every shape."""
    for shape in row_names.SHAPES:
        forms = row_names.ATTNX, row_names.BROADCAST, row_names.LIMIT
        attnx, broadcast, limit = (row_names.operator_row(form, "both", shape) for form in forms)
        speed = partial(ratio, row_names.MILLISECONDS, broadcast, attnx)
        distance = partial(ratio, row_names.KERNEL_MILLISECONDS, attnx, limit)
        yield Aim(f"{attnx}: times as fast as the broadcast form", "operators", speed, 20)
        yield Aim(f"{attnx}: its kernels over the time of the reciprocals", "operators", distance, most=2)


def verdicts(rows: Rows) -> list[Verdict]:
    """Every aim, judged."""
    return [aim.judge(rows) for aim in aims()]

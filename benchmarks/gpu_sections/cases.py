"""The cases of a section and the rows they give: a case that fails or comes too late is a row with the reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from attnx.errors import in_a_line

Figures = dict[str, float]
"""Numbers by their names, which state the units."""
ACCELERATORS = {"cuda": "gpu", "cpu": "cpu"}
FAILED, LATE, NOT_RUN = "failed: ", "too late: ", "not run: "


class NotRunError(Exception):
    """Why a case cannot be measured where the program runs."""


class Setting(NamedTuple):
    """Where a section measures."""

    device: torch.device
    is_check: bool
    """Whether sizes are toy sizes, which prove the program and measure nothing."""
    folder: Path
    """For data and runs; sections share it."""

    @property
    def accelerator(self) -> str:
        """The override by which a run of attnx is on the device."""
        return f"trainer.accelerator={ACCELERATORS[self.device.type]}"


class Case(NamedTuple):
    """One measurement."""

    name: str
    measure: Callable[[], Figures]


class Row(NamedTuple):
    """The figures of a case, or why there are none."""

    name: str
    figures: Figures
    note: str = ""

    @property
    def has_run(self) -> bool:
        """Whether the case was measured, or should have been: one that failed or came too late has no figures."""
        return not self.note.startswith(NOT_RUN)


def write_rows(cases: Iterable[Case], file: Path, deadline: float) -> None:
    """Measure cases until ``deadline``, a time of ``time.monotonic``, and write each row as soon as it is known."""
    with file.open("w", encoding="utf-8") as lines:
        for case in cases:
            lines.write(json.dumps(measure_case(case, deadline)) + "\n")
            lines.flush()
            if torch.cuda.is_available():  # what an operation that ran out of memory has allocated
                torch.cuda.empty_cache()


def read_rows(file: Path) -> list[Row]:
    """The rows written so far."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [Row(*json.loads(line)) for line in lines]


def measure_case(case: Case, deadline: float) -> Row:
    """The row of a case."""
    if time.monotonic() > deadline:
        return Row(case.name, {}, f"{LATE}the time of the section is over")
    try:
        return Row(case.name, case.measure())
    except NotRunError as reason:
        return Row(case.name, {}, f"{NOT_RUN}{reason}")
    except Exception as error:  # a kernel, a compiler, a driver: the other cases are still worth measuring
        return Row(case.name, {}, f"{FAILED}{type(error).__name__}: {in_a_line(error)}")

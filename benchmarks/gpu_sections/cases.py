"""The cases of a section and the rows they give: a case that fails or comes too late is a row with the reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from attnx.errors import in_a_line

Figures = dict[str, float]
"""Numbers by their names, which state the units."""
ACCELERATORS = {"cuda": "gpu", "cpu": "cpu"}
FAILED, LATE, NOT_RUN = "failed: ", "too late: ", "not run: "
START_SECONDS = 20
"""What the process of a section needs before its first case: imports, and the device's start."""


class NotRunError(Exception):
    """Why a case cannot be measured where the program runs."""


class Setting(NamedTuple):
    """Where a section measures."""

    device: torch.device
    is_check: bool
    """Whether sizes are toy sizes, which prove the program and measure nothing."""
    folder: Path
    """For data and runs."""

    @property
    def accelerator(self) -> str:
        """The override by which a run of attnx is on the device."""
        return f"trainer.accelerator={ACCELERATORS[self.device.type]}"


class Case(NamedTuple):
    """One measurement."""

    name: str
    measure: Callable[[], Figures]
    seconds: float
    """Planned: start, compilation, warm-up and repeats. A case that no longer fits into the time is not started."""


class Section(Protocol):
    """A module of this folder that measures."""

    def cases(self, setting: Setting) -> Iterator[Case]:
        """The cases, those that aims need first."""


class Row(NamedTuple):
    """The figures of a case, or why there are none."""

    section: str
    name: str
    figures: Figures
    note: str = ""
    seconds: float = 0.0
    """The time that the case took in all."""


def planned_seconds(section: Section, setting: Setting) -> float:
    """The time of a section."""
    return START_SECONDS + sum(case.seconds for case in section.cases(setting))


def measure_case(section: str, case: Case, seconds_left: float) -> Row:
    """The row of a case."""
    if case.seconds > seconds_left:
        return Row(section, case.name, {}, f"{LATE}it needs {case.seconds:g} s of {max(0, seconds_left):.0f}")
    start, figures, note = time.monotonic(), Figures(), ""
    try:
        figures = case.measure()
    except NotRunError as reason:
        note = f"{NOT_RUN}{reason}"
    except Exception as error:  # a kernel, a compiler, a driver: the other cases are still worth measuring
        note = f"{FAILED}{type(error).__name__}: {in_a_line(error)}"
    return Row(section, case.name, figures, note, round(time.monotonic() - start, 1))

"""Reads, from a run folder alone, how far a job is and how well it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.bounded_files import read_rows
from attnx.runs.layout import METRICS, PROGRESS, RUN
from attnx.runs.run import mapping


@dataclass
class JobProgress:
    """How a job stands.

    Attributes:
        monitor: the validation measure that says which weights are best, once it is known.
        maximize: whether a higher one is better.
        curve: its value at each validation.
        step: the optimizer steps that were taken.
        steps: those there will be.
        error: what the job said went wrong.
    """

    monitor: str | None = None
    maximize: bool = False
    curve: list[float] = field(default_factory=list)
    step: int = 0
    steps: int = 0
    error: str | None = None

    @property
    def best(self) -> float | None:
        """The best value so far; one that is no number is not better than any."""
        known = [value for value in self.curve if value == value]
        return (max if self.maximize else min)(known) if known else None


def standing(folder: Path) -> JobProgress:
    """Read how a job stands; what is not there yet is left out, and what is half written too."""
    try:
        info = mapping(folder / RUN)
        monitor = info.get("monitor")
        rows = list(read_rows(folder / METRICS)) if monitor and (folder / METRICS).is_file() else []
        curve = [float(row[str(monitor)]) for row in rows if row.get(str(monitor))]
        last = max((int(row["step"]) for row in rows if (row.get("step") or "").isdecimal()), default=0)
    except (UserError, ValueError):
        return JobProgress()
    told = _told(folder / PROGRESS)
    step, steps, error = told.get("step"), info.get("steps"), told.get("error")
    step = max(step if isinstance(step, int) else 0, last)
    steps = steps if isinstance(steps, int) else 0
    return JobProgress(monitor, bool(info.get("maximize")), curve, step, steps, str(error) if error else None)


def _told(file: Path) -> dict[str, Any]:
    """What the job last said of itself, if anything."""
    try:
        return mapping(file)
    except UserError:
        return {}

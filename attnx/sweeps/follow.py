"""Reads, from a run folder alone, how far a job is and how well it does."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.read_run import mapping
from attnx.run_format import METRICS, PROGRESS, RUN


@dataclass
class Standing:
    """How a job stands.

    Attributes:
        monitor: the validation measure that says which weights are best, once it is known.
        maximise: whether a higher one is better.
        curve: its value at each validation.
        step: the optimiser steps that were taken.
        steps: those there will be.
        error: what the job said went wrong.
    """

    monitor: str | None = None
    maximise: bool = False
    curve: list[float] = field(default_factory=list)
    step: int = 0
    steps: int = 0
    error: str | None = None

    @property
    def best(self) -> float | None:
        """The best value so far; one that is no number is not better than any."""
        known = [value for value in self.curve if value == value]
        return (max if self.maximise else min)(known) if known else None


def standing(folder: Path) -> Standing:
    """Read how a job stands; what is not there yet is left out, and what is half written too."""
    try:
        info = mapping(folder / RUN)
        monitor = info.get("monitor")
        rows = _rows(folder / METRICS) if monitor else []
        curve = [float(row[str(monitor)]) for row in rows if row.get(str(monitor))]
    except (UserError, ValueError, OSError):
        return Standing()
    told = _told(folder / PROGRESS)
    last = max((int(row["step"]) for row in rows if (row.get("step") or "").isdecimal()), default=0)
    step = max(int(told.get("step", 0)), last)
    return Standing(monitor, bool(info.get("maximise")), curve, step, int(info.get("steps") or 0), told.get("error"))


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _told(file: Path) -> dict[str, Any]:
    """What the job last said of itself, if anything."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}

"""What a run's task declares for reports, read from its source: the task, and so torch, is not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attnx import registry
from attnx.registry.part import Part, undeclared
from attnx.registry.source_scan import catalog
from attnx.runs.run import Run

if TYPE_CHECKING:  # it imports matplotlib
    from attnx.reports.figures.heatmaps import Format

Drawing = Callable[[Path, "Format"], list[Path]]
"""Draws from the files of a run folder and returns the pictures; an empty list if these files are of another kind."""


def task_part(run: Run) -> Part | None:
    """The task of a run or an evaluation; None if it was a plug-in that is not here, or is no longer in order."""
    task = run.evaluated_run.config.get("task")
    part = catalog().parts.get(("task", str(task.get("name")))) if isinstance(task, Mapping) else None
    return None if part is None or undeclared(part) else part


def baseline_names(run: Run) -> Mapping[str, str]:
    """What each of the task's baselines is, in words, by its name in the metrics."""
    part = task_part(run)
    return part.declarations.get("baselines", {}) if part else {}


def captions(run: Run) -> Mapping[str, str]:
    """The files of the pictures that the task draws itself, with their captions."""
    part = task_part(run)
    return part.declarations.get("pictures", {}) if part else {}


def task_drawing(run: Run, what: Literal["alignments", "predictions"]) -> Drawing | None:
    """What the task draws alignments or predictions with, in place of heat maps or of curves of numbers.

    Raises:
        UserError: the module of a plug-in cannot be imported.
    """
    part = task_part(run)
    path = part.declarations.get("figures", {}).get(what) if part else None
    return registry.import_declared(part, path) if part and path else None

"""Looks for the files that a task names, before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from glob import has_magic
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.data.near_files import no_such_file
from attnx.data.paths import fill_in
from attnx.errors import UserError


def refuse_missing_files(task: Mapping[str, Any]) -> None:
    """See that each file and folder that a task's knobs name is there; a pattern of files is left to the task.

    The knobs that name some are those that the task declares as ``data_files``.

    Args:
        task: its name and its knobs.

    Raises:
        UserError: one is not, with what it may have been meant to be.
    """
    for knob in registry.describe("task", task["name"]).properties.get("data_files", ()):
        named = task.get(knob)
        for path in named if isinstance(named, list) else [named]:
            if isinstance(path, str):
                _refuse_missing(f"task.{knob}", path)


def _refuse_missing(knob: str, named: str) -> None:
    place = fill_in(knob, named)
    if not place.exists() and not has_magic(place.name):
        raise UserError(f"{knob}: {no_such_file(Path(place))}")

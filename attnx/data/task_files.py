"""Checks that a task's data files exist, before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from glob import has_magic
from typing import Any

from attnx import registry
from attnx.data.near_files import missing_file_message
from attnx.data.paths import resolve_data_path
from attnx.errors import UserError


def check_task_files(task: Mapping[str, Any]) -> None:
    """Check that the files and folders in a task's options exist; patterns are left to the task.

    A task declares the options that name files as ``data_files``.

    Args:
        task: the task's name and options.

    Raises:
        UserError: a file is missing, with similar names.
    """
    for knob in registry.describe("task", task["name"]).properties.get("data_files", ()):
        value = task.get(knob)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str):
                _check_file(f"task.{knob}", path)


def _check_file(knob: str, name: str) -> None:
    path = resolve_data_path(knob, name)
    if not path.exists() and not has_magic(path.name):
        raise UserError(f"{knob}: {missing_file_message(path)}")

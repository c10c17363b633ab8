"""Writes run.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json
from attnx.runs.layout import RUN


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Write a new ``run.json``."""
    write_json(folder / RUN, info)


def update_info(folder: Path, **facts: Any) -> None:
    """Replace or add values in ``run.json``.

    Raises:
        UserError: there is none, as in a folder that was deleted.
    """
    write_info(folder, {**read_json(folder / RUN), **facts})

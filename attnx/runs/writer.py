"""Writes run.json; refuses folders with links that lead out of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json
from attnx.runs.layout import RUN, WANDB


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Write a new ``run.json``."""
    write_json(folder / RUN, info)


def update_info(folder: Path, **facts: Any) -> None:
    """Replace or add values in ``run.json``.

    Raises:
        UserError: there is none, as in a folder that was deleted.
    """
    write_info(folder, {**read_json(folder / RUN), **facts})


def refuse_links(folder: Path) -> None:
    """Check that a folder can be written to without writing outside it.

    Raises:
        UserError: it holds a link that leads out of it.
    """
    root = folder.resolve()
    for parent, folders, files in os.walk(root):
        for path in (Path(parent, name) for name in (*folders, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise UserError(
                    f"{folder / path.relative_to(root)}: is a link that leads out of {folder}, where nothing may be "
                    "written; replace the link by its target"
                )
        if Path(parent).name == WANDB:
            folders.clear()  # recordings link to W&B's logs; a resumed run begins a new recording

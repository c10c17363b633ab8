"""Finds run folders below some folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.runs.layout import RUN_JSON
from attnx.runs.run import Run


def find_runs(roots: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The runs in some folders, each once, and a message for each that cannot be read."""
    runs: dict[Path, Run] = {}
    messages: list[str] = []
    for root in roots:
        if not root.is_dir():
            raise UserError(f"{root}: not a folder")
        for path in run_folders(root, lambda error: messages.append(f"{error.filename}: {error.strerror}")):
            try:
                run = Run(path).load()
                _ = run.status
                runs.setdefault(path.resolve() if len(roots) > 1 else path, run)
            except (UserError, OSError) as error:
                messages.append(str(error))
    return list(runs.values()), messages


def run_folders(root: Path, report: Callable[[OSError], object] | None = None) -> Iterator[Path]:
    """The run folders below a folder, itself included; links and hidden folders are skipped.

    ``report`` is told of each folder that cannot be read.
    """
    for folder, names, files in os.walk(root, onerror=report):
        if RUN_JSON in files:
            yield Path(folder)
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))

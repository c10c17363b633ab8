"""Files for W&B: media, the model artifact, and W&B's recordings in the run folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnx.runs.layout import BEST, CHECKPOINTS, CONFIG_YAML, LAST, RUN_JSON, VOCABULARY
from attnx.runs.predictions import read_table

MAX_TABLE_ROWS = 10_000  # W&B shows no more
NUMBER = re.compile(r"-?\d+(\.\d+)?")
INCOMPLETE = "incomplete"  # file that marks a recording of which the server has only a part


def as_media(path: Path) -> Any:
    """A file as W&B's media type, by its ending."""
    import wandb

    if path.suffix == ".tsv":
        header, rows = read_table(path)
        columns = [_numbers([row[name] for row in rows[:MAX_TABLE_ROWS]]) for name in header]
        return wandb.Table(columns=[*header], data=[*map(list, zip(*columns, strict=True))])
    if path.suffix == ".html":
        return wandb.Html(str(path), inject=False)
    return wandb.Image(str(path), caption=path.stem)


def _numbers(cells: Sequence[str]) -> Sequence[str] | list[float]:
    """A column as numbers, if all its cells are numbers; W&B then sorts it by value."""
    return [float(cell) for cell in cells] if all(NUMBER.fullmatch(cell) for cell in cells) else cells


def model_artifact(folder: Path, name: str) -> Any:
    """The best checkpoint of a run with the files that open it, by their paths in the run folder."""
    import wandb

    weights = [folder / CHECKPOINTS / checkpoint for checkpoint in (BEST, LAST)]
    files = [next(path for path in weights if path.is_file()), folder / CONFIG_YAML, folder / RUN_JSON]
    artifact = wandb.Artifact(name, type="model")
    for path in (*files, *sorted((folder / VOCABULARY).iterdir())):
        artifact.add_file(str(path), name=path.relative_to(folder).as_posix(), policy="immutable")
    return artifact


def recordings(folder: Path) -> list[Path]:
    """The folders of a run's recordings, oldest first."""
    return sorted(folder.glob("wandb/*run-*-*"), key=lambda path: path.name.removeprefix("offline-"))


def unsynced(folder: Path) -> list[Path]:
    """The recordings that are not uploaded; ``wandb sync`` marks those that it has uploaded."""
    return [
        path
        for path in recordings(folder)
        if (path.name.startswith("offline") or (path / INCOMPLETE).exists()) and not [*path.glob("*.synced")]
    ]


def sync_command(paths: Sequence[Path]) -> str:
    """The command that uploads recordings; "" if there are none."""
    include_online = ["--include-online"] if any(path.name.startswith("run-") for path in paths) else []
    return shlex.join(["wandb", "sync", *include_online, *map(str, paths)]) if paths else ""

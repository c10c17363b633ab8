"""What W&B is given as files, and where it keeps what it records."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attnx.runs.layout import BEST, CHECKPOINTS, CONFIG, LAST, RUN, VOCABULARY

MOST = 10_000  # rows of a table, beyond which W&B shows no more
NUMBER = re.compile(r"-?\d+(\.\d+)?")
INCOMPLETE = "incomplete"  # marks the folder of a recording that the server did not take whole


def medium(path: Path) -> Any:
    """What W&B makes of a file, by its ending."""
    import wandb

    if path.suffix == ".tsv":
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = islice(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), MOST + 1)
        columns = [_numbers(cells) for cells in zip(*rows, strict=True)]
        return wandb.Table(columns=[*head], data=[*map(list, zip(*columns, strict=True))])
    if path.suffix == ".html":
        return wandb.Html(str(path), inject=False)
    return wandb.Image(str(path), caption=path.stem)


def _numbers(cells: Sequence[str]) -> Sequence[str] | list[float]:
    """A column as numbers, by which it can be sorted, if it holds nothing else."""
    return [float(cell) for cell in cells] if all(NUMBER.fullmatch(cell) for cell in cells) else cells


def model(folder: Path, name: str) -> Any:
    """The best weights of a run folder, with what opens them, in the places they have in it."""
    import wandb

    weights = [folder / CHECKPOINTS / checkpoint for checkpoint in (BEST, LAST)]
    held = [next(path for path in weights if path.is_file()), folder / CONFIG, folder / RUN]
    found = wandb.Artifact(name, type="model")
    for path in (*held, *sorted((folder / VOCABULARY).iterdir())):
        found.add_file(str(path), name=path.relative_to(folder).as_posix(), policy="immutable")
    return found


def recordings(folder: Path) -> list[Path]:
    """The folders of what was recorded of a run, in the order of their times."""
    return sorted(folder.glob("wandb/*run-*-*"), key=lambda path: path.name.removeprefix("offline-"))


def unsent(folder: Path) -> list[Path]:
    """Those that are not uploaded; ``wandb sync`` marks what it has uploaded."""
    return [
        path
        for path in recordings(folder)
        if (path.name.startswith("offline") or (path / INCOMPLETE).exists()) and not [*path.glob("*.synced")]
    ]


def command(paths: Sequence[Path]) -> str:
    """What uploads recordings; nothing if there are none."""
    online = ["--include-online"] if any(path.name.startswith("run-") for path in paths) else []
    return shlex.join(["wandb", "sync", *online, *map(str, paths)]) if paths else ""

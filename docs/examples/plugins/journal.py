"""The logger ``journal``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx.loggers.contract import RunStart
from attnx.registry import register
from attnx.runs.info import RunStatus


@register("logger", "journal")
class Journal:
    """A JSON object a line, in journal.jsonl of the run folder.

    Formula: ``one line a call``
    Source: JSON Lines, https://jsonlines.org
    """

    def __init__(self, file: str = "journal.jsonl") -> None:
        self.file = file

    def start(self, run: RunStart) -> Mapping[str, Any]:
        """Start or resume; return the state that a resumed run needs."""
        self.path = run.folder / self.file
        times = run.state.get("times", 0) + 1
        self.write(start=run.name, group=run.group, tags=run.tags, seed=run.config["seed"], times=times)
        return {"times": times}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log values of an optimizer step."""
        self.write(step=step, **values)

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Log pictures (.png), tables (.tsv) and pages (.html)."""
        self.write(step=step, shown={name: path.stat().st_size for name, path in files.items()})

    def finish(self, status: RunStatus, summary: Mapping[str, float]) -> str:
        """Finish; return a command that the user has to run, or ""."""
        self.write(end=status, **summary)
        return ""

    def write(self, **line: Any) -> None:
        """Add a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

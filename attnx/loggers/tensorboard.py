"""The logger ``tensorboard``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnx.files.printable import markdown_table
from attnx.loggers.contract import RunStart
from attnx.registry import register
from attnx.registry.dependencies import require_package
from attnx.runs.info import RunStatus
from attnx.runs.layout import TENSORBOARD
from attnx.runs.predictions import read_table

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MAX_TABLE_ROWS = 100  # tables are shown as text


@register("logger", "tensorboard")
class TensorBoard:
    """Event files for TensorBoard, in ``tensorboard/`` of the run folder; pages are left out, which it cannot show.

    Formula: ``tensorboard --logdir multirun``
    Source: Abadi et al. 2016, section 9.1, https://arxiv.org/abs/1603.04467
    """

    def __init__(self) -> None:
        require_package("tensorboard", "tensorboard", "logger=tensorboard")
        self._writer: SummaryWriter | None = None

    def start(self, run: RunStart) -> Mapping[str, Any]:
        """Start an event file; a resumed run adds another one with its first values."""
        self._folder, self._step = run.folder / TENSORBOARD, 0
        if not run.state:
            config = json.dumps(run.config, indent=2, ensure_ascii=False).replace("\n", "\n    ")
            self._open(0).add_text("run", f"{run.name}\n\n    {config}", 0)
        return {"is_started": True}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        self._step, writer = step, self._open(step)
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Write pictures, and the first rows of tables."""
        from matplotlib.image import imread

        self._step, writer = step, self._open()
        for name, path in files.items():
            if path.suffix == ".png":
                writer.add_image(name, imread(path), step, dataformats="HWC")
            elif path.suffix == ".tsv":
                header, rows = read_table(path)
                writer.add_text(name, markdown_table(header, ([*row.values()] for row in rows[:MAX_TABLE_ROWS])), step)

    def finish(self, status: RunStatus, summary: Mapping[str, float]) -> str:
        """Write the summary as scalars, and close."""
        writer = self._open()
        writer.add_text("end", status, self._step)
        for name, value in summary.items():
            writer.add_scalar(f"summary/{name}", value, self._step)
        writer.close()
        return ""

    def _open(self, first_step: int | None = None) -> SummaryWriter:
        """The event file. One begun at a step hides what a killed process wrote of it and of later ones."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = self._writer or SummaryWriter(self._folder, purge_step=first_step)
        return self._writer

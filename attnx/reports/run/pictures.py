"""The pictures of a run: attention and outputs, each drawn by its task if that declares how, and curves of training."""

from __future__ import annotations

from pathlib import Path

from attnx.reports.figures.heatmaps import Format, PictureOptions, draw_alignments
from attnx.reports.figures.numeric_predictions import draw_numeric_predictions
from attnx.reports.run.task_declarations import task_drawing
from attnx.runs.run import read_run

DEFAULT_OPTIONS = PictureOptions()


def draw_attention(folder: Path, form: Format = "png", options: PictureOptions = DEFAULT_OPTIONS) -> list[Path]:
    """Draw the saved attention weights; an empty list if there are none."""
    draw = task_drawing(read_run(folder), "alignments")
    return (draw(folder, form) if draw else []) or draw_alignments(folder, form, options)


def draw_predictions(folder: Path, form: Format = "png") -> list[Path]:
    """Draw the predictions; an empty list if they are symbols of a task that does not draw them."""
    draw = task_drawing(read_run(folder), "predictions")
    return (draw(folder, form) if draw else []) or draw_numeric_predictions(folder, form)

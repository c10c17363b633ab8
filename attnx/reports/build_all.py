"""All pictures, pages and tables of a finished run."""

from __future__ import annotations

from pathlib import Path

from attnx.reports.figures.curves import draw_curves, draw_numeric_predictions
from attnx.reports.figures.heatmaps import DEFAULT_OPTIONS, Format, PictureOptions, draw_alignments
from attnx.reports.pages.run_page import write_page
from attnx.reports.run.readme import write_run_readme
from attnx.reports.run.task_declarations import task_drawing
from attnx.reports.stats.alignment_statistics import run_statistics, write_statistics
from attnx.runs.run import read_run


def draw_attention(folder: Path, form: Format = "png", options: PictureOptions = DEFAULT_OPTIONS) -> list[Path]:
    """Draw the saved attention weights; an empty list if there are none."""
    draw = task_drawing(read_run(folder), "alignments")
    return (draw(folder, form) if draw else []) or draw_alignments(folder, form, options)


def draw_predictions(folder: Path, form: Format = "png") -> list[Path]:
    """Draw the predictions; an empty list if they are symbols of a task that does not draw them."""
    draw = task_drawing(read_run(folder), "predictions")
    return (draw(folder, form) if draw else []) or draw_numeric_predictions(folder, form)


def build_reports(folder: Path) -> None:
    """Draw the figures of a run folder, write its page and statistics, and its README.md last.

    With ``trainer.pictures=false`` the README.md alone.
    """
    if read_run(folder).config["trainer"]["pictures"]:
        if draw_attention(folder):
            write_statistics(folder, run_statistics(folder))
            write_page([folder])
        draw_predictions(folder)
        draw_curves(folder)
    write_run_readme(folder)

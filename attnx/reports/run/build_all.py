"""Builds all figures, pages and tables of a finished run."""

from __future__ import annotations

from pathlib import Path

from attnx.reports.figures.curves import draw_curves
from attnx.reports.pages.run_page import write_page
from attnx.reports.run.pictures import draw_attention, draw_predictions
from attnx.reports.run.readme import write_run_readme
from attnx.reports.stats.alignment_statistics import run_statistics, write_statistics


def build_reports(folder: Path) -> None:
    """Draw the figures of a run folder, write its page and statistics, and its README.md last."""
    if draw_attention(folder):
        write_statistics(folder, run_statistics(folder))
        write_page([folder])
    draw_predictions(folder)
    draw_curves(folder)
    write_run_readme(folder)

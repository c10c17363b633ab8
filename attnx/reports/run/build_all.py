"""All that is made of what a run has written: pictures, the page, statistics and the explanation."""

from __future__ import annotations

from pathlib import Path

from attnx.reports.figures.curves import draw_curves
from attnx.reports.figures.entity_slots import draw_slots
from attnx.reports.figures.forecasts import draw_forecasts
from attnx.reports.figures.heatmaps import draw_alignments
from attnx.reports.figures.numeric_predictions import draw_numeric_predictions
from attnx.reports.figures.point_answers import draw_points
from attnx.reports.pages.run_page import write_page
from attnx.reports.run.readme import write_explanation
from attnx.reports.stats.alignment_statistics import run_statistics, write_statistics


def draw_and_explain(folder: Path) -> None:
    """Draw what a run folder holds, and say last of all what lies in it."""
    if draw_slots(folder) or draw_alignments(folder):
        write_statistics(folder, run_statistics(folder))
        write_page([folder])
    if not draw_forecasts(folder):
        draw_numeric_predictions(folder)
    draw_points(folder)
    draw_curves(folder)
    write_explanation(folder)

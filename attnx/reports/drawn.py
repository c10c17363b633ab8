"""All that is made of what a run has written: pictures, the page, statistics and the explanation."""

from __future__ import annotations

from pathlib import Path

from attnx.reports.alignment_statistics import run_statistics, write_statistics
from attnx.reports.curves import draw_curves
from attnx.reports.explain import write_explanation
from attnx.reports.heatmaps import draw_alignments
from attnx.reports.run_page import write_page
from attnx.reports.tracks import draw_tracks


def draw_and_explain(folder: Path) -> None:
    """Draw what a run folder holds, and say last of all what lies in it."""
    if draw_alignments(folder):
        write_statistics(folder, run_statistics(folder))
        write_page([folder])
    draw_tracks(folder)
    draw_curves(folder)
    write_explanation(folder)

"""Pictures of a run folder: heat maps of up to twelve of the saved alignments,
from short to long, each beside its array in RUN/alignments, six of them on one
page, RUN/alignments.png; predictions that are numbers, points or forecasts; and
curves of training. For a paper there are pdf and svg, maps of one size and
without marks.

Examples:
  attnx plot multirun/runs/mine --format pdf --equal-panels --no-marks
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from attnx.errors import UserError
from attnx.files.printable import print_line
from attnx.runs.layout import refuse_links
from attnx.runs.run import read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [--format png|svg|pdf] [--equal-panels] [--no-marks]"
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--format", choices=("png", "svg", "pdf"), default="png", help="png (the default), svg or pdf")
    parser.add_argument("--equal-panels", action="store_true", help="maps of one size; cells may then be oblong")
    parser.add_argument("--no-marks", action="store_true", help="without \u2717, references and hatching")


def run(arguments: argparse.Namespace) -> int:
    """Draw the pictures and print their paths."""
    refuse_links(read_run(arguments.run).path)
    from attnx.reports.build_all import draw_attention, draw_predictions
    from attnx.reports.figures.curves import draw_curves
    from attnx.reports.figures.heatmaps import Format, PictureOptions

    image_format = cast(Format, arguments.format)
    options = PictureOptions(not arguments.no_marks, arguments.equal_panels)
    folder = Path(arguments.run)
    paths = [*draw_attention(folder, image_format, options), *draw_predictions(folder, image_format)]
    if curves := draw_curves(folder, image_format):
        paths.append(curves)
    if not paths:
        raise UserError(f"{arguments.run}: has no alignments and no metrics to draw")
    for path in paths:
        print_line(path)
    return 0

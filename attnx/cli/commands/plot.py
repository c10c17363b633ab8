"""Heat maps from a run folder: up to twelve of the saved alignments, from short
to long, each beside its array in RUN/alignments, and six of them on one page,
RUN/alignments.png or .svg.

Examples:
  attnx plot multirun/runs/mine --format svg
"""

from __future__ import annotations

import argparse
from typing import cast

from attnx.errors import UserError
from attnx.runs.naming import refuse_links
from attnx.runs.run import read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [--format png|svg]"
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--format", choices=("png", "svg"), default="png", help="png (the default) or svg")


def run(arguments: argparse.Namespace) -> int:
    """Draw the heat maps and print their paths."""
    refuse_links(read_run(arguments.run).path)
    from attnx.reports.figures.entity_slots import draw_slots
    from attnx.reports.figures.heatmaps import Format, draw_alignments

    image_format = cast(Format, arguments.format)
    paths = draw_slots(arguments.run, image_format) or draw_alignments(arguments.run, image_format)
    if not paths:
        raise UserError(f"{arguments.run}: has no alignments; a run with attention=none has none")
    for path in paths:
        print(path)
    return 0

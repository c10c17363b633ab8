"""Statistics of alignments: entropy, coverage, diagonality, and with gold
alignments the alignment error rate. For a run they are counted over its saved
alignments and written to RUN/alignment_statistics.json.

Gold alignments have a line for each line of RUN/predictions.tsv, with links
SOURCE-REFERENCE counted from 0: 3-2 is a sure link, 3p2 or 3?2 a possible one.

Examples:
  attnx stats multirun/runs/mine --gold test.pharaoh
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.files.printable import print_line
from attnx.runs.layout import refuse_links


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [--gold FILE]"
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--gold", metavar="FILE", help="gold alignments")


def run(arguments: argparse.Namespace) -> int:
    """Print the statistics, and write them."""
    from rich.console import Console

    from attnx.reports.stats.alignment_statistics import run_statistics, statistics_table, write_statistics

    refuse_links(Path(arguments.run))
    statistics = run_statistics(arguments.run, arguments.gold)
    written = write_statistics(arguments.run, statistics)
    Console().print(statistics_table(statistics, f"alignments of {arguments.run}"))
    print_line(written)
    return 0

"""Statistics of alignments: entropy, coverage, diagonality, and with gold
alignments the alignment error rate. For a run they are counted over its saved
alignments and written to RUN/alignment_statistics.json. Any number of other
examples can be counted: attnx predict RUN --alignments FILE.jsonl writes
them.

Gold alignments have a line for each line of RUN/predictions.tsv, with links
SOURCE-REFERENCE counted from 0: 3-2 is a sure link, 3p2 or 3?2 a possible one.

Examples:
  attnx stats multirun/runs/mine --gold test.pharaoh
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.errors import UserError
from attnx.files.printable import print_line
from attnx.runs.layout import refuse_links


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN|FILE.jsonl [--gold FILE]"
    parser.add_argument("run", metavar="RUN", help="a run folder, or a file FILE.jsonl of alignments")
    parser.add_argument("--gold", metavar="FILE", help="gold alignments")


def run(arguments: argparse.Namespace) -> int:
    """Print the statistics, and of a run folder write them."""
    from rich.console import Console

    from attnx.reports.stats.alignment_statistics import (
        file_statistics,
        run_statistics,
        statistics_table,
        write_statistics,
    )

    path, is_file = arguments.run, Path(arguments.run).is_file()
    if is_file and arguments.gold is not None:
        raise UserError("--gold needs a run folder, whose references say which examples the links belong to")
    if not is_file:
        refuse_links(Path(path))
    statistics = file_statistics(path) if is_file else run_statistics(path, arguments.gold)
    written = None if is_file else write_statistics(path, statistics)
    Console().print(statistics_table(statistics, f"alignments of {path}"))
    if written:
        print_line(written)
    return 0

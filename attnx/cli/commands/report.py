"""Compare many runs: which setting is best, by how much, and whether the
difference is significant; the effect of each choice; learning curves, time
and memory, and the same examples as the best runs read them. Runs that differ
by their seed alone are one setting. Writes report.html, which needs no other
file, report.md, report.csv, report.effects.csv, report.tex and report.runs.csv
over older ones. A sweep writes its own report when it ends. A table of runs,
such as report.runs.csv, is read like the folders that it was made from.

Examples:
  attnx report multirun                 every sweep and run in it
  attnx report multirun/scorers
  attnx report multirun/scorers multirun/scopes multirun/runs --out reports
  attnx report mine.runs.csv yours.runs.csv --out ours
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s FOLDER [FOLDER ...] [--out FOLDER]"
    parser.add_argument(
        "folders", nargs="+", metavar="FOLDER", help="a sweep, a run, a folder of some, or a table of runs"
    )
    parser.add_argument("--out", metavar="FOLDER", help="where to write (the deepest folder that holds all others)")


def run(arguments: argparse.Namespace) -> int:
    """Write the report and print the paths of its files."""
    from attnx.reports.sweep.write import write_report

    for path in write_report(arguments.folders, arguments.out):
        print(path)
    return 0

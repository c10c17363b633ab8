"""Compare many runs: which setting is best, by how much, and whether the
difference is significant; the effect of each choice; learning curves, time
and memory, and the same examples as the best runs read them. Runs that differ
by their seed alone are one setting. Writes report.html, which needs no other
file, report.md, report.csv, report.effects.csv, report.tex and report.runs.csv
over older ones. A sweep writes its own report when it ends. A table of runs,
such as report.runs.csv, is read like the folders that it was made from. With
--reference, report.md has a table of the settings that differ from one in a
single choice, with their differences from it. Filters select runs as in
attnx runs. With --best-over optimizer.lr each setting has the learning rate
that is best in validation, and the report says how many were tried. With
--against a cost (flops, state, latency or parameters, or another number of
results.json) it shows which settings no other one beats in quality and cost,
with a picture, report.flops.png.

Examples:
  attnx report multirun                 every sweep and run in it
  attnx report multirun/scorers
  attnx report multirun/scorers multirun/scopes multirun/runs --out reports
  attnx report mine.runs.csv yours.runs.csv --out ours
  attnx report multirun/grid --reference scorer=additive scope=global
  attnx report multirun scorer=dot,additive 'optimizer.lr<0.01'
  attnx report multirun/grid --best-over optimizer.lr
  attnx report multirun/grid --against flops
"""

from __future__ import annotations

import argparse
import os

from attnx.errors import UserError
from attnx.files.printable import print_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = """attnx report FOLDER [FOLDER ...] [FILTER ...]
                    [--out FOLDER] [--reference WORD ...] [--best-over KEY ...]
                    [--against COST]"""
    help_text = "a sweep, a run, a folder of some, a table of runs, or a filter"
    parser.add_argument("words", nargs="+", metavar="FOLDER", help=help_text)
    parser.add_argument("--out", metavar="FOLDER", help="where to write (the deepest folder that holds all others)")
    help_text = "the choices of a setting: what does changing one of them do?"
    parser.add_argument("--reference", nargs="+", metavar="KEY=VALUE", default=(), help=help_text)
    help_text = "of this choice each setting has the value that is best in validation; may be repeated"
    parser.add_argument("--best-over", action="append", metavar="KEY", default=[], help=help_text)
    help_text = "flops, state, latency or parameters: which settings are best for their cost?"
    parser.add_argument("--against", metavar="COST", help=help_text)


def run(arguments: argparse.Namespace) -> int:
    """Write the report and print the paths of its files."""
    from attnx.reports.run_filters import WORD
    from attnx.reports.sweep.report import write_report

    filters = [word for word in arguments.words if WORD.fullmatch(word) and not os.path.exists(word)]
    folders = [word for word in arguments.words if word not in filters]
    if not folders:
        raise UserError("name the runs that the filters select from: attnx report multirun FILTER")
    reference, best_over = arguments.reference, arguments.best_over
    for path in write_report(folders, arguments.out, reference, filters, best_over, arguments.against):
        print_line(path)
    return 0

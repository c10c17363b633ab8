"""Compare runs: a column for each run, a row for each option in which they
differ, and one for each metric, the best of a row in bold;
errors by length; and the difference of each run from the first, with
95 % intervals. Runs tested on different examples have no differences: attnx
evaluate tests them on one file. FOLDER is a run, or an evaluation of one.

Examples:
  attnx compare multirun/scorers/0 multirun/scorers/1

attnx report ranks many runs and shows the effect of each choice. attnx runs
FILTER --paths selects runs by their configuration.
"""

from __future__ import annotations

import argparse

from attnx.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s FOLDER FOLDER ..."
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="runs or evaluations; the first is compared with the others"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison."""
    if len(arguments.folders) < 2:
        raise UserError("attnx compare needs two runs or more: attnx compare FOLDER FOLDER ...")
    from rich.console import Console

    from attnx.reports.sweep.compare import compare

    Console().print(compare(arguments.folders))
    return 0

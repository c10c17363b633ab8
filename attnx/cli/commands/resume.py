"""Resume an interrupted or killed run from its last checkpoint; or a sweep, of
which finished jobs are skipped.

Examples:
  attnx resume multirun/runs/mine
  attnx resume multirun/scorers -j 2
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.cli.args import number_of_jobs
from attnx.cli.steady_output import steady_output
from attnx.errors import UserError
from attnx.files.printable import print_line
from attnx.runs.sweep import is_sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s FOLDER [-j N] [--config-dir FOLDER]"
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a run or a sweep")
    parser.add_argument(
        "-j", "--jobs", metavar="N", type=number_of_jobs, help="parallel jobs of a sweep, or auto (as before)"
    )
    help_text = "your configuration files, if the sweep was started with them"
    parser.add_argument("-cd", "--config-dir", metavar="FOLDER", help=help_text)


def run(arguments: argparse.Namespace) -> int:
    """Resume the run or the sweep."""
    folder = arguments.folder
    if is_sweep(folder):
        from attnx.cli.sweep import resume_sweep

        with steady_output():
            return resume_sweep(folder, arguments.jobs, arguments.config_dir)
    if arguments.jobs:
        raise UserError("-j is the number of parallel jobs of a sweep, but this is a single run; leave it out")
    if arguments.config_dir:
        raise UserError("--config-dir is for sweeps; a single run has its complete configuration, so leave it out")
    from attnx.inference.validate import NOTHING_LEFT, read_resumable_run

    run = read_resumable_run(folder)  # a wrong folder is refused before torch is imported
    if run.is_finished:
        print_line(NOTHING_LEFT.format(folder))
        return 0
    from attnx.data.paths import check_task_files

    check_task_files(run.config["task"])
    from attnx.training.fit import resume as resume_run

    with steady_output():
        resume_run(folder)
    return 0

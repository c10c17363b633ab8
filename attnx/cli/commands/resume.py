"""The command ``attnx resume``: resumes a run or a sweep."""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.cli.args import text, whole_number
from attnx.errors import UserError
from attnx.runs.sweep import is_sweep

DESCRIPTION = """\
Continue a run that was interrupted or killed, from its last checkpoint; or a
sweep, whose finished jobs stay."""
EPILOG = """\
examples:
  attnx resume multirun/mine
  attnx resume multirun/scorers -j 2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.usage = "%(prog)s FOLDER [-j N] [--config-dir FOLDER]"
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("-j", "--jobs", metavar="N", type=whole_number, help="jobs of a sweep that run at a time (1)")
    parser.add_argument(
        "-cd",
        "--config-dir",
        metavar="FOLDER",
        type=text,
        help="your configuration files, of a sweep that began with them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Continue the run or the sweep.

    Raises:
        UserError: a folder that is neither a run nor a sweep, or a flag that does not fit.
    """
    folder = arguments.folder
    if is_sweep(folder):
        from attnx.cli.hydra import resume_sweep

        return resume_sweep(folder, arguments.jobs or 1, arguments.config_dir)
    if arguments.jobs:
        raise UserError("-j says how many jobs of a sweep run side by side, but this is a single run")
    if arguments.config_dir:
        raise UserError("--config-dir is part of how a sweep is composed, but a single run holds its configuration")
    from attnx.inference.validate import NOTHING_LEFT, read_resumable_run

    run = read_resumable_run(folder)  # a wrong folder is refused before torch is imported
    if run.is_finished:
        print(NOTHING_LEFT.format(folder))
        return 0
    from attnx.data.task_files import check_task_files

    check_task_files(run.config["task"])
    from attnx.training.fit import resume as resume_run

    resume_run(folder)
    return 0

"""Compare a mechanism of yours with known ones by a protocol: a file with tasks,
baselines, and the learning rates to try. The overrides say what your mechanism
is; without any only the baselines are trained. Of each mechanism the best rate
in validation is found with one seed, and new seeds of it are what counts. What
has been trained is not trained again: after Ctrl-C the same command goes on.
Writes a page, a text, a table, and a table of the runs, which others may name
to have them beside theirs. --check runs the whole protocol with tiny budgets.

Examples:
  attnx suite recall scorer=capped --check
  attnx suite recall scorer=capped scorer.cap=30 -j 2
  attnx suite mad model.mixer=mine model.position_encoding=none
  attnx suite my_protocol.yaml scope=local
  attnx suite recall scorer=mine others.runs.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.cli.args import number_of_jobs
from attnx.cli.steady_output import steady_output
from attnx.cli.suite import SuiteCommand
from attnx.config.suite_file import DEFAULT_SUITE, read_suite
from attnx.errors import UserError
from attnx.runs.sweep import reject_repeated

TABLE = ".csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = """attnx suite [NAME] [KEY=VALUE ...] [TABLE ...] [-j N]
                   [--check] [--config-dir FOLDER]"""
    help_text = "a suite or its file (recall), what your mechanism is, and tables of runs of others"
    parser.add_argument("words", nargs="*", metavar="NAME", help=help_text)
    parser.add_argument("-j", "--jobs", metavar="N", type=number_of_jobs, default=1, help="jobs at a time, or auto (1)")
    parser.add_argument("--check", action="store_true", help="the whole protocol in about a minute, with tiny budgets")
    parser.add_argument("-cd", "--config-dir", metavar="FOLDER", help="your configuration files, suite/NAME.yaml too")


def run(arguments: argparse.Namespace) -> int:
    """Train what is missing, and write the page."""
    with steady_output():
        return read_command(arguments).run()


def read_command(arguments: argparse.Namespace) -> SuiteCommand:
    """What the words ask for, with the files that they name.

    Raises:
        UserError: a file is missing or has a mistake, or words contradict each other.
    """
    words = arguments.words
    overrides = [word for word in words if "=" in word and not Path(word).is_file()]
    tables = [Path(word) for word in words if word not in overrides and word.endswith(TABLE)]
    names = [word for word in words if word not in overrides and not word.endswith(TABLE)]
    if len(names) > 1:
        raise UserError(f"{names[1]}: one suite at a time, and {names[0]} is one; write KEY=VALUE for a choice")
    if missing := [table for table in tables if not table.is_file()]:
        raise UserError(f"{missing[0]}: no such file; name a table of runs that attnx suite has written")
    reject_repeated(overrides)
    suite = read_suite(names[0] if names else DEFAULT_SUITE, arguments.config_dir)
    return SuiteCommand(
        suite=suite,
        overrides=overrides,
        tables=tables,
        config_dir=arguments.config_dir,
        max_parallel=arguments.jobs,
        is_check=arguments.check,
        command_line=arguments.command_line,
    )

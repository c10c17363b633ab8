"""The commands: each is a module with ``add_arguments(parser)`` and ``run(arguments)``, imported when it is called.

The docstring of the module is the page of the command, with the examples last.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Protocol, cast

from attnx.cli.args import Parser

COMMANDS = {
    "list": ("[KIND] [NAME]", "what can be chosen, with formulas and options"),
    "check": ("NAME", "the laws of a part, yours too: which hold"),
    "data": ("list | get | check", "public data sets: fetch them, check them"),
    "resume": ("FOLDER", "continue an interrupted run or sweep"),
    "runs": ("[FOLDER ...] [KEY=VALUE]", "list, filter and prune runs"),
    "compare": ("FOLDER FOLDER ...", "runs side by side, with confidence intervals"),
    "report": ("FOLDER ...", "rank settings and test the differences: a page"),
    "suite": ("[NAME] [KEY=VALUE ...]", "a page on a mechanism beside known ones"),
    "cost": ("FOLDER ...", "operations, state and time of a token"),
    "predict": ("RUN [FILE]", "the output for each line of a file, or typed"),
    "evaluate": ("RUN", "scores and errors on any data"),
    "plot": ("RUN", "heat maps of a run's attention, as PNG or SVG"),
    "page": ("RUN [RUN2]", "a browser page of one run or of two"),
    "stats": ("RUN", "statistics of a run's alignments"),
    "export": ("RUN", "the model as files that run without attnx"),
    "dashboard": ("FOLDER | PROJECT", "a W&B workspace of a sweep or a project"),
}
"""Each command's arguments in short, and what it does."""
TOPICS = {
    "parts": ("list", "check"),
    "data sets": ("data",),
    "runs": ("resume", "runs"),
    "results": ("compare", "report", "cost", "suite"),
    "trained models": ("predict", "evaluate"),
    "attention maps": ("plot", "page", "stats"),
    "other tools": ("export", "dashboard"),
}
"""The commands by what they are about."""
HELP = ("help", "--help", "-h")
COMPLETE_PAGE = "all"
"""The word after --help that asks for the page on all commands, flags and choices."""
BUILTINS = ("list",)
"""Commands whose modules end in an underscore, so as not to hide a name of Python's."""


class Command(Protocol):
    """The module of a command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command; return the exit code.

        Raises:
            UserError: a mistake in the arguments, or in the files that they name.
        """


def load_command(name: str) -> tuple[Command, Parser]:
    """Import the module of a command, and make the parser of its arguments."""
    command = cast(Command, importlib.import_module(f"{__name__}.{name}{'_' * (name in BUILTINS)}"))
    parser = Parser(f"attnx {name}", command.__doc__ or "")
    command.add_arguments(parser)
    return command, parser

"""The page of commands, from the text that each prints for ``--help``."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from unittest import mock

from generated_pages import write_pages
from sphinx.application import Sphinx

from attnx.cli.commands import COMMANDS
from attnx.cli.main import run

COLUMNS = "80"
INTRODUCTION = """\
# Commands

The text of `attnx --help`, of `attnx --help all`, and of `attnx COMMAND --help` for each command.
[Runs](../../runs.md) explains overrides, exit codes and completion."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page when a build begins."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    pages = (_section("attnx", []), _section("attnx --help all", ["all"]))
    sections = [*pages, *(_section(f"attnx {name}", [name]) for name in COMMANDS)]
    text = "\n\n".join([INTRODUCTION, *sections]) + "\n"
    write_pages(Path(app.srcdir) / "reference" / "commands", {"index.md": text})


def _section(command: str, words: list[str]) -> str:
    return f"## {command}\n\n```text\n{help_text([*words, '--help'])}\n```"


def help_text(words: list[str]) -> str:
    """What a command line prints in a terminal of 80 columns."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, COLUMNS=COLUMNS):
        run(words)
    return printed.getvalue().strip()

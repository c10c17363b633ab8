"""The command ``attnx compare``: runs side by side, and how surely one is better."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.cli.commands.words import split
from attnx.errors import UserError

USAGE = """\
attnx compare FOLDER FOLDER ...

A column a run, a row a measure, the best of a row in bold; errors by length; and how each differs from the first, with
95 % intervals. Runs that were tested on different examples are compared on those they share. FOLDER is a run, or an
evaluation of one.

  attnx compare multirun/scorers/0 multirun/scorers/1

Which of many won, and what each choice does: attnx report --help. Other ways to choose runs: attnx runs --help."""


def compare(words: Sequence[str]) -> int:
    """Carry out ``attnx compare WORDS``.

    Raises:
        UserError: fewer than two runs, or a folder that is none.
    """
    folders = split(words, {}, ()).named
    if len(folders) < 2:
        raise UserError("say which runs to compare: attnx compare FOLDER FOLDER ...")
    from rich.console import Console

    from attnx.reports.comparison.compare import compare as side_by_side

    Console().print(side_by_side(folders))
    return 0

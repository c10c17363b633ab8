"""The command ``attnx report``: which of many runs won, how surely, and what each choice does."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.cli.commands.words import split
from attnx.errors import UserError

USAGE = """\
attnx report FOLDER [FOLDER ...] [out=FOLDER]

Compare runs: which won, by how much and how surely; what each choice does; learning curves, time and memory, and the
same examples as the best read them. FOLDER is a sweep, a run, or a folder that holds some. Runs that differ by their
seed alone are one setting. Writes report.html, which holds all it shows and loads nothing, report.md, report.csv and
report.tex, over older ones, and says where; a sweep writes its own when it ends.

  out=FOLDER            where to; left out, the deepest folder that holds all

  attnx report multirun                 every sweep, and the single runs of multirun/runs
  attnx report multirun/scorers
  attnx report multirun/scorers multirun/scopes multirun/runs out=reports"""

FLAGS = {"--out": "a folder"}


def report(words: Sequence[str]) -> int:
    """Carry out ``attnx report WORDS``.

    Raises:
        UserError: a mistake in what is asked, or a folder without runs.
    """
    asked = split([f"--{word}" if word.startswith("out=") else word for word in words], FLAGS, ())
    if not asked.named:
        raise UserError("say what to compare: attnx report FOLDER, of a sweep, a run, or several")
    from attnx.reports.sweep.write import write_report

    for path in write_report(asked.named, asked.flags.get("--out")):
        print(path)
    return 0

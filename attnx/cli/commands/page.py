"""The command ``attnx page``: one page to look into what a run read, or two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnx.cli.commands.words import split
from attnx.errors import UserError
from attnx.runs.run import read_run

USAGE = """\
attnx page RUN [RUN2] [--out FILE]

One page for a browser, RUN/page.html: the alignments a run kept, to look into symbol by symbol, head by head and
hypothesis by hypothesis; of two runs side by side. It holds all it shows and loads nothing.

  --out FILE            where to write

  attnx page multirun/mine
  attnx page multirun/scorers/0 multirun/scorers/1 --out scorers.html"""

FLAGS = {"--out": "a file"}


def page(words: Sequence[str]) -> int:
    """Carry out ``attnx page WORDS``.

    Raises:
        UserError: a mistake in what is asked, or a run without alignments.
    """
    asked = split(words, FLAGS, ())
    if not asked.named:
        raise UserError("say which run to show: attnx page RUN, or two: attnx page RUN RUN2")
    for folder in asked.named:
        read_run(folder)
    out = asked.flags.get("--out")
    if out is not None and (Path(out).is_dir() or not Path(out).parent.is_dir()):
        raise UserError(f"--out {out}: " + ("it is a folder" if Path(out).is_dir() else "no such folder"))
    from attnx.reports.pages.run_page import write_page

    print(write_page(asked.named, out))
    return 0

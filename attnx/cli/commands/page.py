"""A page for a browser, RUN/page.html: the saved alignments, to look into by
symbol, head and hypothesis, and a player of how each was decoded; of two runs
side by side. It needs no other file.

Examples:
  attnx page multirun/runs/mine
  attnx page multirun/scorers/0 multirun/scorers/1 --out scorers.html
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from attnx.errors import UserError
from attnx.files.printable import print_line, printable
from attnx.registry.plugin_errors import PlugInError
from attnx.reports.pages.html_template import refuse_foreign
from attnx.runs.layout import refuse_links
from attnx.runs.run import read_run

if TYPE_CHECKING:
    from attnx.reports.pages.decoding_trace import Tracer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [--out FILE]\n       %(prog)s RUN RUN2 --out FILE"
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or two")
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write (RUN/page.html)")


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print its path."""
    out = arguments.out
    if len(arguments.runs) == 2 and out is None:
        raise UserError("two runs side by side need --out FILE: RUN/page.html is the page of that run alone")
    for folder in arguments.runs:
        run = read_run(folder)
        if out is None:
            refuse_links(run.path)
    if out is not None:
        if out.is_dir() or not out.parent.is_dir():
            raise UserError(f"--out {out}: " + ("it is a folder" if out.is_dir() else "no such folder"))
        refuse_foreign(out)
    from attnx.reports.pages.run_page import write_page

    print_line(write_page(arguments.runs, out, _open_traces))
    return 0


def _open_traces(folder: Path) -> Tracer | str:
    """The traces of a run, from its checkpoint; without one, a line says so, and the page plays saved weights."""
    from attnx.inference.validate import read_complete_run

    try:
        read_complete_run(folder)  # before torch is imported
        from attnx.inference.trace_decoding import open_tracer

        return open_tracer(folder)
    except PlugInError:
        raise
    except UserError as error:
        print(f"attnx: the player shows saved weights only: {printable(str(error))}", file=sys.stderr)
        return str(error)

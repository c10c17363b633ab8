"""The command ``attnx gallery``: pictures of what parts do."""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.gallery.write import draw_parts

DESCRIPTION = """\
Pictures of what scorers, scopes, queries and normalizers do, parts/*.png.
Without a name all of them, and the page parts.md that shows them. Nothing is
trained."""
EPILOG = """\
examples:
  attnx gallery local
  attnx gallery local scope.window=1 scope.center=predictive
  attnx gallery scorer --out pictures"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = "%(prog)s [KIND ...] [NAME ...] [KIND.KNOB=VALUE ...] [--out FOLDER]"
    parser.add_argument("words", nargs="*", metavar="NAME", help="a part or a kind, or a knob: scope.window=1")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path(), help="where to write (the current folder)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw the parts and print the paths.

    Raises:
        UserError: an unknown part or knob, or a wrong value; nothing was written.
    """
    for path in draw_parts(arguments.words, arguments.out):
        print(path)
    return 0

"""Pictures of what scorers, scopes, queries and normalizers do, parts/*.png.
Without a name all of them, and the page parts.md that shows them. Nothing is
trained.

Examples:
  attnx gallery local
  attnx gallery local scope.window=1 scope.center=predictive
  attnx gallery scorer --out pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.gallery.write import draw_parts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s [KIND ...] [NAME ...] [KIND.KNOB=VALUE ...] [--out FOLDER]"
    parser.add_argument("words", nargs="*", metavar="NAME", help="a part or a kind, or a knob: scope.window=1")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=Path(), help="where to write (here)")


def run(arguments: argparse.Namespace) -> int:
    """Draw the parts and print the paths."""
    for path in draw_parts(arguments.words, arguments.out):
        print(path)
    return 0

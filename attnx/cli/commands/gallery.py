"""Pictures of what scorers, scopes, queries and normalizers do: parts/*.png, and
parts/*.html, pages for a browser whose pictures move with the knobs. Without a
name all of them, on the pages parts.md and parts.html. Nothing is trained.

Examples:
  attnx gallery local
  attnx gallery local scope.window=1 scope.center=predictive
  attnx gallery scorer --out pictures
  attnx gallery --page parts.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attnx.cli.args import check_output_file
from attnx.files.printable import print_line
from attnx.gallery.write import draw_parts
from attnx.reports.pages.html_template import BEGINNING


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s [NAME ...] [KNOB=VALUE ...] [--out FOLDER | --page FILE]"
    parser.add_argument("words", nargs="*", metavar="NAME", help="a part or a kind, or a knob: scope.window=1")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--out", metavar="FOLDER", type=Path, default=Path(), help="where to write (here)")
    target.add_argument("--page", metavar="FILE", type=Path, help="write only the page of these parts, for a browser")


def run(arguments: argparse.Namespace) -> int:
    """Draw the parts and print the paths."""
    paths = [_write_page(arguments)] if arguments.page is not None else draw_parts(arguments.words, arguments.out)
    for path in paths:
        print_line(path)
    return 0


def _write_page(arguments: argparse.Namespace) -> Path:
    check_output_file("--page", arguments.page, BEGINNING)
    from attnx.gallery.moving_page import write_moving_page

    return write_moving_page(arguments.words, arguments.page)

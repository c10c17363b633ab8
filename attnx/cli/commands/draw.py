"""The command ``attnx draw``: what parts do, as pictures."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.errors import UserError, near_misses
from attnx.gallery.write import draw as draw_parts

USAGE = """\
attnx draw [KIND ...] [NAME ...] [KIND.KNOB=VALUE ...] [folder=FOLDER]

What scorers, scopes, queries and normalizers do, as pictures, parts/*.png; without a name all of them, and the page
parts.md that shows them. Nothing is trained. Prints what it wrote.

  folder=FOLDER         where to; left out, the current folder

  attnx draw local
  attnx draw local scope.window=1 scope.center=predictive
  attnx draw scorer folder=pictures"""


def draw(words: Sequence[str]) -> int:
    """Carry out ``attnx draw WORDS``.

    Raises:
        UserError: no such part, knob or value; nothing was written.
    """
    if flags := [word for word in words if word.startswith("-")]:
        raise UserError(f"unknown flag {flags[0]}{near_misses(flags[0], ['--help'])}")
    for path in draw_parts(words):
        print(path)
    return 0

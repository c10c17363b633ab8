"""The command ``attnx check``: tries the laws of one part and says which hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from attnx.cli.commands.words import split
from attnx.errors import UserError, near_misses
from attnx.registry.source_scan import KINDS, SETS, Part, catalog

if TYPE_CHECKING:
    from attnx.laws.check import Outcome

USAGE = """\
attnx check NAME [KIND.KNOB=VALUE ...]

Tries the laws that every part of a kind obeys on one part, yours or one of attnx: shapes, rows that do not mix,
what it declares, masks, gradients, precision. A line for each law: passed, FAILED or not tried. Each that failed
is told below: file and line, what came instead, and what the law says. docs/add-a-part.md has the contracts.

  NAME                  a part: capped, or scorer=capped (scorer/capped) where several kinds have the name
  KIND.KNOB=VALUE       knobs to try it with: scorer.cap=30. Knobs that are left out and are a choice (true or
                        false, one of several words) are tried with each of their values

The exit code is 0 if no law failed, and 2 if one did, or if there is no such part.
A part in a plug-in folder is tried by a few of these laws, in milliseconds, before each training that uses it.

  attnx check capped
  attnx check scorer=capped scorer.cap=30
  attnx check task=mine task.train=words.tsv"""


def check(words: Sequence[str]) -> int:
    """Carry out ``attnx check WORDS``.

    Raises:
        UserError: a mistake in what is asked, or a law does not hold.
    """
    if not words:
        raise UserError("say which part: attnx check NAME; attnx list shows them all")
    part = find_part(words[0])
    place = f"{part.kind}.{part.name}." if part.kind in SETS else f"{part.kind}."
    asked = split(words[1:], {}, (place,))
    if asked.named:
        raise UserError(f"attnx check tries one part, and {words[0]} is followed by {asked.named[0]!r}")
    knobs = {key.removeprefix(place): value for key, value in asked.chosen.items()}
    return _show(part, _tried(part, knobs))


def find_part(word: str) -> Part:
    """The part that a word means: a name, or a kind and a name, ``scorer=dot`` or ``scorer/dot``.

    Raises:
        UserError: none is meant, or several are.
    """
    parts = catalog().parts
    kind, apart, name = word.replace("=", "/", 1).rpartition("/")
    if apart and kind not in KINDS:
        raise UserError(f"there is no kind {kind!r}{near_misses(kind, KINDS)}")
    found = [part for part in parts.values() if part.name == name and kind in ("", part.kind)]
    if not found:
        known = {part.name for part in parts.values() if kind in ("", part.kind)}
        raise UserError(f"no {kind or 'part'} {name!r}{near_misses(name, known)}")
    if len(found) > 1:
        ways = " or ".join(f"attnx check {part.kind}={name}" for part in found)
        raise UserError(f"{name!r} is the name of several parts: write {ways}")
    return found[0]


def _tried(part: Part, knobs: Mapping[str, Any]) -> list[Outcome]:
    from attnx.laws.candidate import Candidate
    from attnx.laws.check import check as try_laws

    return try_laws(Candidate(part.kind, part.name, knobs))


def _show(part: Part, outcomes: Sequence[Outcome]) -> int:
    """Print the table, and below it a line for each law that is broken."""
    console = Console()
    console.print(f"{part.kind}={part.name}  {part.place}", highlight=False, soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    for outcome in outcomes:
        untried = f"not tried: {outcome.untried}" if outcome.untried else "passed"
        table.add_row(f"  {outcome.law}", "FAILED" if outcome.failure else untried)
    console.print(table, highlight=False)
    broken = [outcome for outcome in outcomes if outcome.failure]
    for outcome in broken:
        console.print(f"{outcome.law}: {outcome.failure}", highlight=False, markup=False, soft_wrap=True)
    if broken:
        raise UserError(f"the {part.kind} {part.name!r} breaks {len(broken)} of {len(outcomes)} laws of a {part.kind}")
    return 0

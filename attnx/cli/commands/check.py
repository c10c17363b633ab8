"""Test a part, yours or one of attnx, against the laws of its kind: shapes, rows
that do not mix, what it declares, masks, gradients, precision. Prints a line
for each law: passed, FAILED or not tried; and for each failure the file and
line, the result, and the law. docs/add-a-part.md has the contracts, and how
much two numbers may differ. A part is a scorer, scope, query, normalizer,
bias, encoder, decoder, readout, output, decoding, metric, model or task.

The exit code is 0 if no law failed, and 2 if one did or there is no such
part. A part in a plug-in folder is tested by a few of these laws, in
milliseconds, before each training that uses it.

Examples:
  attnx check capped
  attnx check scorer=capped scorer.cap=30
  attnx check task=mine task.train=words.tsv
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnx import registry
from attnx.cli.args import split_overrides
from attnx.errors import UserError, suggest
from attnx.files.parse_number import count_phrase
from attnx.files.printable import print_line, printable
from attnx.registry.part import CHECKED_KINDS, KINDS, MULTI_SELECT_KINDS, Part
from attnx.registry.plugin_files import searched
from attnx.registry.source_scan import catalog


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s NAME [KIND.OPTION=VALUE ...]"
    parser.add_argument("part", metavar="NAME", help="a part: capped, or scorer=capped if several kinds have the name")
    options = "options of the part, as scorer.cap=30; a choice that is left out is tested with each of its values"
    parser.add_argument("options", nargs="*", metavar="KIND.OPTION=VALUE", help=options)


def run(arguments: argparse.Namespace) -> int:
    """Test the part, and print a table of the laws, and below it each failure, however many laws it breaks."""
    registry.forget_changed()
    part = find_part(arguments.part)
    prefix = f"{part.kind}.{part.name}." if part.kind in MULTI_SELECT_KINDS else f"{part.kind}."
    names, values = split_overrides(arguments.options, (prefix,))
    if names:
        raise UserError(f"attnx check tests one part; leave out {names[0]!r}")
    options = {key.removeprefix(prefix): value for key, value in values.items()}
    if options:
        registry.check(part.kind, part.name, options)  # before torch is imported
    from attnx.laws.candidate import Candidate
    from attnx.laws.check import LawFailure, check_part
    from attnx.laws.laws import Law

    outcomes = check_part(Candidate(part.kind, part.name, options))
    print_line(f"{part.kind}={part.name}  {part.place}")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    broken: dict[LawFailure, list[Law]] = {}
    for outcome in outcomes:
        untried = f"not tried: {outcome.skip_reason}" if outcome.skip_reason else "passed"
        table.add_row(f"  {outcome.law.name}", Text("FAILED" if outcome.failure else printable(untried)))
        if outcome.failure:
            broken.setdefault(outcome.failure, []).append(outcome.law)
    Console().print(table, highlight=False)
    for failure, laws in broken.items():
        suffix = f" and {count_phrase(len(laws) - 1, 'other law')}" if len(laws) > 1 else ""
        print_line(f"{laws[0].name}{suffix}: {failure.line}; the law: {laws[0].statement}")
    kind_phrase = f"{'an' if part.kind[0] in 'aeiou' else 'a'} {part.kind}"
    if broken:
        count = sum(len(laws) for laws in broken.values())
        raise UserError(f"the {part.kind} {part.name!r} breaks {count} of {len(outcomes)} laws of {kind_phrase}")
    skipped = sum(bool(outcome.skip_reason) for outcome in outcomes)
    rest = f"; {count_phrase(skipped, 'other')} could not be tried" if skipped else ""
    obeyed = count_phrase(len(outcomes) - skipped, "law")
    print_line(f"the {part.kind} {part.name!r} obeys {obeyed} of {kind_phrase}{rest}")
    return 0


def find_part(word: str) -> Part:
    """The part that a word means: a name, or a kind and a name, ``scorer=dot`` or ``scorer/dot``.

    Raises:
        UserError: none is meant, several are, or one of a kind without laws.
    """
    parts = catalog().parts
    kind, separator, name = word.replace("=", "/", 1).rpartition("/")
    if separator and kind not in KINDS:
        raise UserError(f"there is no kind {kind!r}{suggest(kind, KINDS)}")
    matches = [part for part in parts.values() if part.name == name and kind in ("", part.kind)]
    if not matches:
        names = {part.name for part in parts.values() if kind in ("", part.kind)}
        hint = suggest(name, names)
        hint = hint if kind or "did you mean" in hint else "; attnx list shows all parts"
        raise UserError(f"no {kind or 'part'} {name!r}{hint}; {searched()}")
    checked = [part for part in matches if part.kind in CHECKED_KINDS]
    if not checked:
        kinds = ", ".join(CHECKED_KINDS)
        raise UserError(f"{name!r} is of the kind {matches[0].kind}, which has no laws; attnx check tests {kinds}")
    if len(checked) > 1:
        ways = " or ".join(f"attnx check {part.kind}={name}" for part in checked)
        raise UserError(f"{name!r} is the name of several parts: write {ways}")
    return checked[0]

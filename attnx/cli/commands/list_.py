"""The command ``attnx list``: what can be chosen, a line each; a kind with its knobs; or one choice in full."""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from attnx import registry
from attnx.cli.help import CHOICES, WIDEST_PAGE
from attnx.config.groups import GROUPS, PART_GROUPS, conf_folder, group_options
from attnx.config.view import value_text
from attnx.errors import UserError, suggest
from attnx.gallery.part_variant import DRAWN_KINDS, knob_key
from attnx.registry.source_scan import KINDS, Part

DESCRIPTION = """\
What can be chosen, grouped by kind: a line for each choice with its name, and
its formula or purpose. For a KIND each choice with its formula and its knobs;
for a NAME all that is known: what it computes, its source, every knob with
its default and its values. Recipes and experiments are choices, too. In a
terminal a line that does not fit ends in an ellipsis; in a pipe or a file
lines are whole."""
EPILOG = """\
examples:
  attnx list
  attnx list scorer
  attnx list mlp
  attnx list bahdanau
  attnx list scope=local
  attnx list | grep tanh"""

# Kinds that no word of the command line picks, and what does: listed when they are named.
UNPICKED = {
    "kernel": "how attention is computed fast; attnx chooses, accel=off does without",
    "metric": "what is measured; each task has its own",
}
TITLES = {**CHOICES, "tokenizer": "how text becomes symbols: task.tokenizer=NAME", **UNPICKED}
PICKED = (*GROUPS, "tokenizer")


class Preset(NamedTuple):
    """A file of choices and knobs, such as a recipe."""

    kind: str
    name: str
    file: Path

    @property
    def comment(self) -> str:
        """What its first lines say of it."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        start = next(index for index, line in enumerate([*lines, ""]) if not line.startswith("#"))
        return " ".join(line.lstrip("# ") for line in lines[:start] if not line.startswith("# @package"))


Choice = Part | Preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = "%(prog)s [KIND ...] [NAME ...]"
    parser.add_argument("words", nargs="*", metavar="NAME", help="a choice or a kind")


def run(arguments: argparse.Namespace) -> int:
    """Print the choices.

    Raises:
        UserError: an unknown kind or name.
    """
    words = arguments.words
    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, WIDEST_PAGE)
    kinds = [kind for kind in TITLES if kind in words]
    names = [word for word in words if word not in TITLES]
    if names:
        choices = [choice for name in names for choice in _match(name, kinds)]
        console.print(Text("\n\n").join(_page(choice, width) for choice in choices))
    elif kinds:
        console.print(Text("\n\n").join(_kind(kind, width) for kind in kinds))
    else:
        for line in _lines():
            # A terminal's lines are cut to fit it; a pipe's are whole, to search in.
            is_cut = console.is_terminal or "COLUMNS" in os.environ
            console.print(_cut(line, console.width) if is_cut else line)
    return 0


def _choices(kind: str) -> list[Choice]:
    """The parts of a kind, plug-ins last, and its files."""
    parts: list[Choice] = [] if kind not in KINDS else [registry.describe(kind, name) for name in registry.names(kind)]
    files = {name: conf_folder() / kind / f"{name}.yaml" for name in (group_options(kind) if kind in GROUPS else ())}
    return [*parts, *(Preset(kind, name, file) for name, file in files.items() if file.is_file())]


def _match(word: str, kinds: Sequence[str]) -> list[Choice]:
    """The choices of a name, or of ``KIND=NAME``; of several kinds those that one picks, where there are some.

    Raises:
        UserError: there is none.
    """
    kind, equals, name = word.lstrip("+").rpartition("=")
    if equals and kind not in TITLES:
        raise UserError(f"no kind {kind!r}{suggest(kind, TITLES)}")
    kinds = [kind] if equals else kinds
    choices = [choice for kind in kinds or TITLES for choice in _choices(kind)]
    matches = [choice for choice in choices if choice.name == name]
    if not matches:
        hint = suggest(name, {choice.name for choice in choices} | (set() if kinds else set(TITLES)))
        shows_all = "" if "did you mean" in hint or kinds else "; attnx list shows all"
        raise UserError(f"no {' or '.join(kinds) or 'part or kind'} {name!r}{shows_all or hint}")
    return [choice for choice in matches if choice.kind in PICKED] or matches


def _lines() -> Iterator[Text]:
    groups = {kind: _choices(kind) for kind in PICKED}
    longest = max(len(choice.name) for choices in groups.values() for choice in choices)
    for kind, choices in groups.items():
        yield Text.assemble((kind, "bold"), f": {TITLES[kind]}")
        for choice in choices:
            yield Text(f"  {choice.name:<{longest}}  {_origin(choice)}{_formula(choice) or _summary(choice)}")
    yield Text()
    yield Text("One in full: attnx list NAME. A kind with its knobs: attnx list KIND.")


def _cut(line: Text, width: int) -> Text:
    """A line that fits, with an ellipsis for the words that do not."""
    if line.cell_len > width:
        line.truncate(width - 1)
        line = line[: line.plain.rindex(" ") + 1].append("…")
    return line


def _kind(kind: str, width: int) -> Text:
    choices = _choices(kind)
    longest = max((len(choice.name) for choice in choices), default=0)
    title = _filled(TITLES[kind], width, f"{kind}: ", "    ")
    shown = Text.assemble((kind, "bold"), title.removeprefix(kind))
    for choice in choices:
        knobs = " ".join(_knobs(choice).keys()) if isinstance(choice, Part) else ""
        first, *details = filter(None, (_origin(choice) + _summary(choice), _formula(choice), knobs))
        indent = " " * (longest + 4)
        entry = [_filled(first, width, f"  {choice.name:<{longest}}  ", indent)]
        shown.append("\n\n" + "\n".join([*entry, *(_filled(text, width, indent, indent + "  ") for text in details)]))
    return shown


def _page(choice: Choice, width: int) -> Text:
    """All that is known of a choice."""
    picked = f"{choice.kind}={choice.name}" if choice.kind in GROUPS else f"{choice.kind} {choice.name}"
    page = Text(picked, style="bold")
    if isinstance(choice, Preset):
        body = re.sub(r"\A(#.*\n)*", "", choice.file.read_text(encoding="utf-8")).strip()
        parts = [_filled(choice.comment, width), body, str(choice.file)]
    else:
        parts = [*_paragraphs(choice.doc, width), _knob_table(choice, width), _ending(choice)]
    page.append("\n" + "\n\n".join(filter(None, parts)), style="not bold")
    return page


def _ending(part: Part) -> str:
    drawn = f"drawn by attnx gallery {part.name}\n" if part.kind in DRAWN_KINDS else ""
    return f"{drawn}{part.origin}: {part.place}"


def _paragraphs(doc: str, width: int) -> Iterator[str]:
    """A docstring without its examples; its formula and its source stand on lines of their own."""
    for paragraph in _plain(doc.split(">>>")[0]).strip().split("\n\n"):
        pieces = re.split(r"\n(?=\S+: )(?=Formula|Source)", paragraph)
        yield "\n".join(
            _filled(piece, width, "", "    " * bool(re.match("Formula:|Source:", piece))) for piece in pieces
        )


def _knob_table(part: Part, width: int) -> str:
    knobs = _knobs(part)
    longest = max(map(len, knobs), default=0)
    return "\n".join(
        _filled(phrase, width, f"  {knob:<{longest}}  ", " " * (longest + 6)) for knob, phrase in knobs.items()
    )


def _knobs(part: Part) -> dict[str, str]:
    """Every knob as it is written on the command line, with its default, and what it can be."""
    written = (lambda name: knob_key(part, name)) if part.kind in PART_GROUPS else str
    return {f"{written(knob.name)}={value_text(knob.default)}": knob.type.phrase for knob in part.knobs}


def _summary(choice: Choice) -> str:
    """The first sentence, or what stands for it."""
    text = choice.comment if isinstance(choice, Preset) else _plain(choice.doc.split("\n\n")[0])
    return " ".join(text.split())


def _formula(choice: Choice) -> str:
    return "" if isinstance(choice, Preset) else _plain(choice.doc_line("Formula"))


def _origin(choice: Choice) -> str:
    return "" if isinstance(choice, Preset) or choice.origin == "core" else f"({choice.origin}) "


def _plain(text: str) -> str:
    """Without the marks of a docstring."""
    return re.sub(r":\w+:`([^`]+)`", r"\1", text).replace("``", "")


def _filled(text: str, width: int, first: str = "", indent: str = "") -> str:
    """Wrapped between words: a link longer than a line stays whole."""
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )

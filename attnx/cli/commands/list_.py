"""What can be chosen, grouped by kind: a line for each choice with its name, and
its formula or purpose. For a KIND each choice with its formula and its options;
for a NAME all that is known: what it computes, its source, every option with
its default and its values. Recipes and experiments are choices, too. In a
terminal a line that does not fit ends in an ellipsis; in a pipe or a file
lines are whole.

Examples:
  attnx list
  attnx list scorer
  attnx list mlp
  attnx list bahdanau
  attnx list scope=local
  attnx list | grep tanh
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from attnx import registry
from attnx.cli.help import CHOICES, WIDEST_PAGE, filled
from attnx.config.groups import GROUPS, conf_folder, group_choices, option_key, option_keys
from attnx.config.view import value_text
from attnx.errors import UserError, suggest
from attnx.registry.part import KINDS
from attnx.registry.plugin_files import searched
from attnx.registry.synonyms import known_as

# Kinds that no word of the command line picks, and what does: listed when they are named.
UNPICKED = {
    "metric": "what is measured; each task has its own",
}
BY_OPTION = {
    "tokenizer": "how text becomes symbols: task.tokenizer=NAME",
    "bias": "a term of the scores by position: attention.bias=NAME, or 'attention.bias={name: NAME, OPTION: VALUE}'",
    "mixer": "what a layer holds in place of attention: model.mixer=NAME, or a list by layer, [NAME,standard]",
}
TITLES = {**CHOICES, **BY_OPTION, **UNPICKED}
PICKED = (*GROUPS, *BY_OPTION)


class Choice(NamedTuple):
    """What can be chosen: a part, or a file of choices and options such as a recipe, with what its page shows."""

    kind: str
    name: str
    doc: str
    ending: str
    body: str = ""
    formula: str = ""
    origin: str = ""
    options: Mapping[str, str] = {}

    @property
    def summary(self) -> str:
        """The first paragraph on one line."""
        return self.origin + " ".join(self.doc.split("\n\n")[0].split())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s [KIND ...] [NAME ...]"
    parser.add_argument("words", nargs="*", metavar="NAME", help="a choice or a kind")


def run(arguments: argparse.Namespace) -> int:
    """Print the choices."""
    words = arguments.words
    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, WIDEST_PAGE)
    kinds = [kind for kind in TITLES if kind in words]
    names = [word for word in words if word not in TITLES]
    if names:
        console.print(Text("\n\n").join(page for name in names for page in _pages(name, kinds, width)))
    elif kinds:
        console.print(Text("\n\n").join(_kind(kind, width) for kind in kinds))
    else:
        for line in _lines():
            # A terminal's lines are cut to fit it; a pipe's are whole, to search in.
            if line.cell_len > console.width and (console.is_terminal or "COLUMNS" in os.environ):
                line.truncate(console.width - 1)
                line = line[: line.plain.rfind(" ") + 1].append("…")
            console.print(line)
    return 0


def _choices(kind: str) -> list[Choice]:
    """The parts of a kind, plug-ins last, and its files."""
    choices = []
    for name in registry.names(kind) if kind in KINDS else ():
        part = registry.describe(kind, name)
        choice = Choice(
            kind,
            part.name,
            doc=_plain(part.doc.split(">>>")[0]).strip(),
            ending=f"{part.origin}: {part.place}",
            formula=_plain(part.doc_line("Formula")),
            origin="" if part.origin == "core" else f"({part.origin}) ",
            options={
                f"{option_key(part, option.name)}={value_text(option.default)}": option.type.phrase
                for option in part.options
            },
        )
        choices.append(choice)
    for name in group_choices(kind) if kind in GROUPS else ():
        file = conf_folder() / kind / f"{name}.yaml"
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines()
            head = list(takewhile(lambda line: line.startswith("#"), lines))
            comment = " ".join(line.lstrip("# ") for line in head if not line.startswith("# @package"))
            body = "\n".join(lines[len(head) :]).strip()
            choices.append(Choice(kind, file.stem, doc=comment, body=body, ending=str(file)))
    return choices


def _pages(word: str, kinds: Sequence[str], width: int) -> list[Text]:
    """The pages of a name or of ``KIND=NAME``: choices, else what others call so, else options of that name."""
    kind, equals, name = word.lstrip("+").rpartition("=")
    if equals and kind not in TITLES:
        raise UserError(f"no kind {kind!r}{suggest(kind, TITLES)}")
    kinds = [kind] if equals else kinds
    choices = [choice for kind in kinds or TITLES for choice in _choices(kind)]
    if matches := [choice for choice in choices if choice.name == name]:
        picked = [choice for choice in matches if choice.kind in PICKED]  # by a word of the command line
        return [_page(choice, width) for choice in picked or matches]
    if targets := known_as(name) or option_keys(name):
        shown = [target for target in targets if target.partition("=")[0] in kinds] or targets
        return [page for target in shown for page in _known_pages(name, target, width)]
    hint = suggest(name, {choice.name for choice in choices} | (set() if kinds else set(TITLES)))
    shows_all = "" if "did you mean" in hint or kinds else "; attnx list shows all"
    where = f"; {searched()}" if not kinds or KINDS.keys() & kinds else ""
    raise UserError(f"no {' or '.join(kinds) or 'part or kind'} {name!r}{shows_all or hint}{where}")


def _known_pages(name: str, target: str, width: int) -> list[Text]:
    """What others call ``name``: a choice in full, or an option with its values and the choices that have it."""
    heading = Text(f"{name} in attnx: {target}\n\n", style="not bold")
    key, _, value = target.partition("=")
    kind, dot, _ = key.partition(".")
    if not dot:
        return [heading + _page(choice, width) for choice in _choices(kind) if choice.name == value]
    options = {
        choice.name: f"{option}: {phrase}"
        for choice in _choices(kind)
        for option, phrase in choice.options.items()
        if option.partition("=")[0] == key
    }
    shown = [filled(option, width, "  ", "    ") for option in dict.fromkeys(options.values())]
    return [heading.append("\n".join([*shown, f"\nan option of {kind} {', '.join(options)}"]))]


def _lines() -> Iterator[Text]:
    groups = {kind: _choices(kind) for kind in PICKED}
    longest = max(len(choice.name) for choices in groups.values() for choice in choices)
    for kind, choices in groups.items():
        yield Text.assemble((kind, "bold"), f": {TITLES[kind]}")
        for choice in choices:
            purpose = choice.origin + choice.formula if choice.formula else choice.summary
            yield Text(f"  {choice.name:<{longest}}  {purpose}")
    yield Text()
    yield Text("One in full: attnx list NAME. A kind with its options: attnx list KIND.")


def _kind(kind: str, width: int) -> Text:
    choices = _choices(kind)
    longest = max((len(choice.name) for choice in choices), default=0)
    indent = " " * (longest + 4)
    title = filled(TITLES[kind], width, f"{kind}: ", "    ")
    shown = Text.assemble((kind, "bold"), title.removeprefix(kind))
    for choice in choices:
        entry = [filled(choice.summary, width, f"  {choice.name:<{longest}}  ", indent)]
        details = filter(None, (choice.formula, " ".join(choice.options)))
        shown.append("\n\n" + "\n".join([*entry, *(filled(text, width, indent, indent + "  ") for text in details)]))
    return shown


def _page(choice: Choice, width: int) -> Text:
    """All that is known of a choice."""
    picked = f"{choice.kind}={choice.name}" if choice.kind in GROUPS else f"{choice.kind} {choice.name}"
    longest = max(map(len, choice.options), default=0)
    indent = " " * (longest + 6)
    options = [filled(phrase, width, f"  {option:<{longest}}  ", indent) for option, phrase in choice.options.items()]
    paragraphs = []
    for paragraph in choice.doc.split("\n\n"):  # the formula and the source stand on lines of their own
        pieces = re.split(r"\n(?=Formula: |Source: )", paragraph)
        indents = ["    " * piece.startswith(("Formula:", "Source:")) for piece in pieces]
        lines = [filled(piece, width, "", indent) for piece, indent in zip(pieces, indents, strict=True)]
        paragraphs.append("\n".join(lines))
    parts = [*paragraphs, choice.body, "\n".join(options), choice.ending]
    return Text(picked, style="bold").append("\n" + "\n\n".join(filter(None, parts)), style="not bold")


def _plain(text: str) -> str:
    """Without the marks of a docstring."""
    return re.sub(r":\w+:`([^`]+)`", r"\1", text).replace("``", "")

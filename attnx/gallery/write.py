"""Writes pictures of parts; of all parts also the page that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.compose import compose
from attnx.errors import UserError, near_misses
from attnx.gallery.part_choice import DRAWN, Choice
from attnx.registry.source_scan import Part, catalog

PICTURES, PAGE = "parts", "parts.md"
EXAMPLE = "scope.window=1"


def draw(words: Sequence[str], folder: Path) -> list[Path]:
    """Draw the parts that are named; without a name all of them, and write their page.

    Args:
        words: names of parts or of kinds, and values of their knobs (``scope.window=1``).
        folder: pictures go to its folder ``parts``, the page is its ``parts.md``.

    Returns:
        what was written, the page last.

    Raises:
        UserError: no such part, knob or value; nothing was written.
    """
    for place in (folder, folder / PICTURES):
        if place.exists() and not place.is_dir():
            raise UserError(f"--out {folder}: {place} is a file; name another folder")
    knobs = [word for word in words if "." in word.partition("=")[0]]
    names = [word for word in words if word not in knobs]
    parts = _named(names) if names else everything()
    _refuse_strange(knobs, parts if names else ())
    choices = [Choice(part, _values(part, knobs)) for part in parts]

    from attnx.gallery.pictures import picture, save, telling

    if not names:
        choices = [choice for part in parts for choice in telling(part)]
    figures = {choice.file: picture(choice) for choice in choices}
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    written = [save(figure, folder / PICTURES / file) for file, figure in figures.items()]
    return written if names else [*written, _write_page(choices, folder / PAGE)]


def everything() -> list[Part]:
    """Every part that can be drawn, by kind, plug-ins last."""
    return [registry.part(kind, name) for kind in DRAWN for name in registry.names(kind)]


def _write_page(choices: Sequence[Choice], path: Path) -> Path:
    from attnx.gallery.page import page

    path.write_text(page(choices), encoding="utf-8")
    return path


def _named(names: Sequence[str]) -> list[Part]:
    parts, found = everything(), []
    for name in names:
        meant = [part for part in parts if name in (part.kind, part.name, f"{part.kind}={part.name}")]
        if not meant:
            raise UserError(_unknown(name, parts))
        found += meant
    return list({(part.kind, part.name): part for part in found}.values())


def _unknown(name: str, parts: Sequence[Part]) -> str:
    other = next((part for part in catalog().parts.values() if name in (part.kind, part.name)), None)
    if other is not None:
        return f"{name!r} has no picture: drawn are parts of the kinds {', '.join(DRAWN)}, and not of {other.kind}"
    return f"no part or kind {name!r}{near_misses(name, {*DRAWN, *(part.name for part in parts)})}"


def _refuse_strange(knobs: Sequence[str], parts: Sequence[Part]) -> None:
    for word in knobs:
        if not any(_belongs(word, part) for part in parts):
            raise UserError(
                f"{word}: no part is named that this belongs to; write it as in attnx gallery local {EXAMPLE}"
            )


def _belongs(word: str, part: Part) -> bool:
    return word.lstrip("+").startswith(f"query.{part.name}." if part.kind == "query" else f"{part.kind}.")


def _values(part: Part, words: Sequence[str]) -> dict[str, Any]:
    """The knobs that are named, with the values they have in a configuration of this part, where they are checked."""
    mine = [word for word in words if _belongs(word, part)]
    if not mine:
        return {}
    node = compose([f"{part.kind}={part.name}", *mine])[part.kind]
    node = node[part.name] if part.kind == "query" else node
    named = [word.partition("=")[0].rpartition(".")[2] for word in mine]
    return {name: node[name] for name in named}

"""Draws the parts named on the command line, or all parts with their page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.compose import compose
from attnx.errors import UserError, suggest
from attnx.gallery.part_variant import DRAWN_KINDS, PartVariant
from attnx.registry.source_scan import Part, catalog

PICTURES, PAGE = "parts", "parts.md"
EXAMPLE = "scope.window=1"


def draw_parts(words: Sequence[str], folder: Path) -> list[Path]:
    """Draw the named parts; without a name all of them, and write their page.

    Args:
        words: names of parts or of kinds, and values of their knobs (``scope.window=1``).
        folder: pictures go to its folder ``parts``, the page is its ``parts.md``.

    Returns:
        the files written, the page last.

    Raises:
        UserError: no such part, knob or value; nothing was written.
    """
    for path in (folder, folder / PICTURES):
        if path.exists() and not path.is_dir():
            raise UserError(f"--out {folder}: {path} is a file; name another folder")
    knobs = [word for word in words if "." in word.partition("=")[0]]
    names = [word for word in words if word not in knobs]
    parts = _match(names) if names else drawable_parts()
    _reject_unmatched_knobs(knobs, parts if names else ())
    variants = [PartVariant(part, _knob_values(part, knobs)) for part in parts]

    from attnx.gallery.pictures import draw_variant, save, variants_to_draw

    if not names:
        variants = [variant for part in parts for variant in variants_to_draw(part)]
    figures = {variant.file: draw_variant(variant) for variant in variants}
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    files = [save(figure, folder / PICTURES / file) for file, figure in figures.items()]
    return files if names else [*files, _write_page(variants, folder / PAGE)]


def drawable_parts() -> list[Part]:
    """Every part that can be drawn, by kind, plug-ins last."""
    return [registry.describe(kind, name) for kind in DRAWN_KINDS for name in registry.names(kind)]


def _write_page(variants: Sequence[PartVariant], path: Path) -> Path:
    from attnx.gallery.page import page

    path.write_text(page(variants), encoding="utf-8")
    return path


def _match(names: Sequence[str]) -> list[Part]:
    parts = drawable_parts()
    selected: dict[tuple[str, str], Part] = {}
    for name in names:
        matches = [part for part in parts if name in (part.kind, part.name, f"{part.kind}={part.name}")]
        if not matches:
            raise UserError(_unknown_message(name, parts))
        selected |= {(part.kind, part.name): part for part in matches}
    return list(selected.values())


def _unknown_message(name: str, parts: Sequence[Part]) -> str:
    undrawn = next((part for part in catalog().parts.values() if name in (part.kind, part.name)), None)
    if undrawn is not None:
        return f"{name!r} is of the kind {undrawn.kind}; only parts of {', '.join(DRAWN_KINDS)} are drawn"
    return f"no part or kind {name!r}{suggest(name, {*DRAWN_KINDS, *(part.name for part in parts)})}"


def _reject_unmatched_knobs(knobs: Sequence[str], parts: Sequence[Part]) -> None:
    for word in knobs:
        if not any(_belongs(word, part) for part in parts):
            raise UserError(f"{word}: name the part of this knob, too, as in attnx gallery local {EXAMPLE}")


def _belongs(word: str, part: Part) -> bool:
    return word.lstrip("+").startswith(f"query.{part.name}." if part.kind == "query" else f"{part.kind}.")


def _knob_values(part: Part, words: Sequence[str]) -> dict[str, Any]:
    """The part's knobs among the words, with values that the configuration has checked."""
    overrides = [word for word in words if _belongs(word, part)]
    if not overrides:
        return {}
    node = compose([f"{part.kind}={part.name}", *overrides])[part.kind]
    node = node[part.name] if part.kind == "query" else node
    names = [word.partition("=")[0].rpartition(".")[2] for word in overrides]
    return {name: node[name] for name in names}

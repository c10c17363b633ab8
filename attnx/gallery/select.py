"""Reads the words of the command: the parts to draw, and the values of their knobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx import registry
from attnx.config.compose import compose
from attnx.errors import UserError, suggest
from attnx.gallery.part_variant import DRAWN_KINDS, NESTED_KINDS, PartVariant, choice_key
from attnx.registry.source_scan import Part, catalog


def select_variants(words: Sequence[str]) -> list[PartVariant]:
    """The parts that words name, all parts without a name, with the knobs that words set.

    Args:
        words: names of parts or of kinds, and values of their knobs (``scope.window=1``).

    Raises:
        UserError: no such part, knob or value.
    """
    knobs = [word for word in words if "." in (key := word.partition("=")[0]) and key not in NESTED_KINDS.values()]
    names = [word for word in words if word not in knobs]
    parts = _match(names) if names else drawable_parts()
    for word in knobs:
        if not names or not any(_belongs(word, part) for part in parts):
            raise UserError(f"{word}: name the part of this knob, too, as in attnx gallery local scope.window=1")
    return [PartVariant(part, _knob_values(part, knobs)) for part in parts]


def drawable_parts() -> list[Part]:
    """Every part that can be drawn, by kind, plug-ins last."""
    return [registry.describe(kind, name) for kind in DRAWN_KINDS for name in registry.names(kind)]


def _match(names: Sequence[str]) -> list[Part]:
    parts = drawable_parts()
    selected: dict[tuple[str, str], Part] = {}
    for name in names:
        matches = [part for part in parts if name in (part.kind, part.name, f"{choice_key(part)}={part.name}")]
        undrawn = next((part for part in catalog().parts.values() if name in (part.kind, part.name)), None)
        if not matches and undrawn is not None:
            kinds = ", ".join(DRAWN_KINDS)
            raise UserError(f"{name!r} is of the kind {undrawn.kind}; only parts of {kinds} are drawn")
        if not matches:
            similar = suggest(name, {*DRAWN_KINDS, *(part.name for part in parts)})
            raise UserError(f"no part or kind {name!r}{similar}")
        selected |= {(part.kind, part.name): part for part in matches}
    return list(selected.values())


def _belongs(word: str, part: Part) -> bool:
    return word.lstrip("+").startswith(f"query.{part.name}." if part.kind == "query" else f"{part.kind}.")


def _knob_values(part: Part, words: Sequence[str]) -> dict[str, Any]:
    """The part's knobs among the words, with values that the configuration has checked."""
    overrides = [word for word in words if _belongs(word, part)]
    if not overrides:
        return {}
    values = {word.partition("=")[0].rpartition(".")[2]: word.partition("=")[2] for word in overrides}
    if part.kind in NESTED_KINDS:
        pairs = ", ".join(f"{name}: {value}" for name, value in values.items())
        group, _, option = choice_key(part).partition(".")
        node = compose([f"{choice_key(part)}={{name: {part.name}, {pairs}}}"])[group][option]
    else:
        node = compose([f"{part.kind}={part.name}", *overrides])[part.kind]
        node = node[part.name] if part.kind == "query" else node
    return {name: node[name] for name in values}

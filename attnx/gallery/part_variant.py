"""A part to draw: with default knobs or with others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnx.config.view import value_text
from attnx.gallery.knob_values import choices
from attnx.registry import PartSpec
from attnx.registry.source_scan import MULTI_SELECT_KINDS, Knob, Part

DRAWN_KINDS = ("scorer", "scope", "query", "normalizer", "bias")
NESTED_KINDS = {"bias": "attention.bias"}
"""The keys of kinds that are a value of another part's knob, as a name or as ``{name: NAME, KNOB: VALUE}``."""


@dataclass(frozen=True)
class PartVariant:
    """A part, and those of its knobs that are not at their defaults."""

    part: Part
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The overrides that select it on the command line."""
        if self.part.kind in NESTED_KINDS and self.knobs:
            pairs = (f"{name}: {value_text(value)}" for name, value in self.knobs.items())
            return f"'{choice_key(self.part)}={{{', '.join([f'name: {self.part.name}', *pairs])}}}'"
        knobs = (f"{knob_key(self.part, name)}={value_text(value)}" for name, value in self.knobs.items())
        return " ".join([f"{choice_key(self.part)}={self.part.name}", *knobs])

    @property
    def spec(self) -> PartSpec:
        """Its name and knobs, as parts are built from them."""
        return self.part.name, self.knobs

    @property
    def drawn_as(self) -> str:
        """The kind whose pictures it has: its own, or for a recurrent normalizer, whose steps differ, a scorer."""
        return "scorer" if self.part.properties.get("is_recurrent") else self.part.kind

    @property
    def file(self) -> str:
        """The name of its picture."""
        return re.sub(r"[^\w.]+", "-", str(self)).strip("-") + ".png"


def choice_key(part: Part) -> str:
    """The key that chooses a part on the command line."""
    return NESTED_KINDS.get(part.kind, part.kind)


def knob_key(part: Part, name: str) -> str:
    """A knob's key on the command line; of a part that is a value of another one, its name alone."""
    if part.kind in NESTED_KINDS:
        return name
    return f"{part.kind}.{part.name}.{name}" if part.kind in MULTI_SELECT_KINDS else f"{part.kind}.{name}"


def drawn_knobs(part: Part) -> list[Knob]:
    """The knobs that may move the picture of a part: not those that only some models read."""
    return [knob for knob in part.knobs if knob.name not in part.properties.get("for_models", ())]


def alternatives(part: Part) -> list[PartVariant]:
    """The part with each non-default value of each knob that is a bool or a Literal."""
    variants = []
    for knob in drawn_knobs(part):
        values = [value for value in choices(knob) if value not in (None, knob.default) and not isinstance(value, list)]
        variants += [PartVariant(part, {knob.name: value}) for value in values]
    return variants


def formula_markdown(part: Part) -> str:
    """A part's formula in Markdown: code, and words between pieces of code as they are; "" without one."""
    formula = part.doc_line("Formula")
    if not formula:
        return ""
    # The line begins with code, and ends with code unless one of its marks is without a partner.
    end = "" if formula.count("``") % 2 else "``"
    return f"``{formula}{end}".replace("``", "`")


def doc_paragraphs(part: Part) -> list[str]:
    """The paragraphs of a part's docstring in Markdown, without formula, source and example; first its summary."""
    text = re.sub(r"^(Formula|Source):.*(?:\n[ \t]+\S.*)*", "", part.doc.split(">>>")[0], flags=re.MULTILINE)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    paragraphs = map(str.strip, re.split(r"\n\s*\n", text))
    return list(filter(None, paragraphs)) or [part.name]

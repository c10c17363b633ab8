"""A part to draw: with default knobs or with others."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnx.config.view import value_text
from attnx.registry import PartSpec
from attnx.registry.source_scan import MULTI_SELECT_KINDS, Part

DRAWN_KINDS = ("scorer", "scope", "query", "normalizer")


@dataclass(frozen=True)
class PartVariant:
    """A part, and those of its knobs that are not at their defaults."""

    part: Part
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The overrides that select it on the command line."""
        knobs = (f"{knob_key(self.part, name)}={value_text(value)}" for name, value in self.knobs.items())
        return " ".join([f"{self.part.kind}={self.part.name}", *knobs])

    @property
    def spec(self) -> PartSpec:
        """Its name and knobs, as parts are built from them."""
        return self.part.name, self.knobs

    @property
    def file(self) -> str:
        """The name of its picture."""
        return re.sub(r"[^\w.]+", "-", str(self)).strip("-") + ".png"


def knob_key(part: Part, name: str) -> str:
    """A knob's key on the command line."""
    return f"{part.kind}.{part.name}.{name}" if part.kind in MULTI_SELECT_KINDS else f"{part.kind}.{name}"


def alternatives(part: Part) -> list[PartVariant]:
    """The part with each non-default value of each knob that is a bool or a Literal."""
    variants = []
    for knob in part.knobs:
        literal = re.fullmatch(r"Literal\[([^][]*)\]", knob.annotation)
        values = ast.literal_eval(f"({literal[1]},)") if literal else (False, True) if knob.annotation == "bool" else ()
        variants += [PartVariant(part, {knob.name: value}) for value in values if value != knob.default]
    return variants


def doc_paragraphs(part: Part) -> list[str]:
    """The paragraphs of a part's docstring without formula, source and example; the first is its summary."""
    text = re.sub(r"^(Formula|Source):.*(?:\n[ \t]+\S.*)*", "", part.doc.split(">>>")[0], flags=re.MULTILINE)
    paragraphs = map(str.strip, re.split(r"\n\s*\n", text.replace("``", "`")))
    return list(filter(None, paragraphs)) or [part.name]

"""A part to draw: with default knobs or with others."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
        knobs = (f"{knob_key(self.part, name)}={knob_text(value)}" for name, value in self.knobs.items())
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


def knob_text(value: Any) -> str:
    """A knob's value on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(knob_text, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def alternatives(part: Part) -> list[PartVariant]:
    """The part with each non-default value of each knob that is a bool or a Literal."""
    return [
        PartVariant(part, {knob.name: value})
        for knob in part.knobs
        for value in _values(knob.annotation)
        if value != knob.default
    ]


def _values(annotation: str) -> Sequence[Any]:
    """The values of a ``bool`` or a ``Literal``; none for any other type."""
    if annotation == "bool":
        return (False, True)
    match ast.parse(annotation, mode="eval").body:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=items):
            values = ast.literal_eval(items)
            return values if isinstance(values, tuple) else (values,)
    return ()

"""What is to be drawn: a part, with its own knobs or with others."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnx.registry.source_scan import SETS, Part

DRAWN = ("scorer", "scope", "query", "normalizer")


@dataclass(frozen=True)
class Choice:
    """A part, and those of its knobs that are not left as they are."""

    part: Part
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """As it is written on the command line."""
        chosen = f"{self.part.kind}={self.part.name}"
        return " ".join([chosen, *(f"{knob_of(self.part, name)}={spelled(self.knobs[name])}" for name in self.knobs)])

    @property
    def file(self) -> str:
        """The name of its picture."""
        return re.sub(r"[^\w.]+", "-", str(self)).strip("-") + ".png"


def knob_of(part: Part, name: str) -> str:
    """A knob as it is written on the command line."""
    return f"{part.kind}.{part.name}.{name}" if part.kind in SETS else f"{part.kind}.{name}"


def spelled(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(spelled, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def alternatives(part: Part) -> list[Choice]:
    """The part with each other value of a knob that is a choice between few."""
    return [
        Choice(part, {knob.name: value})
        for knob in part.knobs
        for value in _values(knob.annotation)
        if value != knob.default
    ]


def _values(annotation: str) -> Sequence[Any]:
    """The values of a ``bool`` or a ``Literal``; none for any other type."""
    if annotation == "bool":
        return (False, True)
    match ast.parse(annotation, mode="eval").body:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=listed):
            values = ast.literal_eval(listed)
            return values if isinstance(values, tuple) else (values,)
    return ()

"""What is drawn: parts, with default options or with others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnx import registry
from attnx.config.groups import option_key
from attnx.config.view import value_text
from attnx.registry import PartSpec
from attnx.registry.part import Option, Part
from gallery.option_values import choices

MOVING_KINDS = ("scorer", "scope", "query", "normalizer", "bias")
DRAWN_KINDS = (*MOVING_KINDS, "attention", "mixer")
CHOICE_KEYS = {"bias": "attention.bias", "mixer": "model.mixer"}
"""The keys that choose parts which are a value of another part's option."""
FURTHER_OPTIONS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("scope", "local"): [
        {"window": 1, "dilation": 2},
        {"window": 1, "sinks": 2},
        {"window": 1, "global_tokens": 1},
    ],
    ("attention", "standard"): [{"softcap": 3.0}, {"heads": 2, "head_scopes": ["local", "global"]}],
}
"""Options that no bool or Literal lists, and are worth a picture each."""


@dataclass(frozen=True)
class PartVariant:
    """A part, and those of its options that are not at their defaults."""

    part: Part
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The overrides that select it on the command line."""
        options = (f"{option_key(self.part, name)}={value_text(value)}" for name, value in self.options.items())
        return " ".join([f"{choice_key(self.part)}={self.part.name}", *options])

    @property
    def spec(self) -> PartSpec:
        """Its name and options, as parts are built from them."""
        return self.part.name, self.options

    @property
    def drawn_as(self) -> str:
        """The kind whose pictures it has: its own, or for a recurrent normalizer, whose steps differ, a scorer."""
        is_recurrent = self.part.declarations.get("is_recurrent")
        return "scorer" if is_recurrent and self.part.kind == "normalizer" else self.part.kind

    @property
    def file(self) -> str:
        """The name of its picture."""
        return re.sub(r"[^\w.]+", "-", str(self)).strip("-") + ".png"


def drawable_parts(kinds: Sequence[str] = DRAWN_KINDS) -> list[Part]:
    """Every part of these kinds that can be drawn, by kind, plug-ins last; no attention is no picture."""
    names = [(kind, name) for kind in kinds for name in registry.names(kind)]
    return [registry.describe(*part) for part in names if part != ("attention", "none")]


def choice_key(part: Part) -> str:
    """The key that chooses a part on the command line."""
    return CHOICE_KEYS.get(part.kind, part.kind)


def drawn_options(part: Part) -> list[Option]:
    """The options that may move the picture of a part: not those that only some models read."""
    return [option for option in part.options if option.name not in part.declarations.get("for_models", ())]


def alternatives(part: Part) -> list[PartVariant]:
    """The part with each non-default value of each option that is a bool or a Literal, and with further ones."""
    variants = [PartVariant(part, options) for options in FURTHER_OPTIONS.get((part.kind, part.name), [])]
    for option in drawn_options(part):
        values = [
            value for value in choices(option) if value not in (None, option.default) and not isinstance(value, list)
        ]
        variants += [PartVariant(part, {option.name: value}) for value in values]
    return variants

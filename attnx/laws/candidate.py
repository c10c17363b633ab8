"""The part that a law is checked on, its variants, and the source locations of its members."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from attnx import registry
from attnx.registry.part import Part


class LawSkipped(Exception):
    """A law does not apply, or cannot be checked; the text says why."""


@dataclass(frozen=True)
class Candidate:
    """A part that laws are checked on."""

    kind: str  # of part
    name: str  # its registered name
    # options it is built with; the remaining ones keep their defaults
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def info(self) -> Part:
        """Its entry in the catalog."""
        return registry.describe(self.kind, self.name)

    def declaration(self, name: str, default: Any = None) -> Any:
        """A declaration in its source."""
        return self.info.declarations.get(name, default)

    def has_option(self, name: str) -> bool:
        """Whether it has an option of a name."""
        return name in [option.name for option in self.info.options]

    def with_options(self, **options: Any) -> Candidate:
        """The candidate with further options."""
        return replace(self, options={**self.options, **options})

    def build(self, **supplied: Any) -> Any:
        """Build it in evaluation mode, without dropout."""
        part = registry.build(self.kind, (self.name, self.options), **supplied)
        return part.eval() if isinstance(part, nn.Module) else part

    def location(self, member: str = "") -> str:
        """``file:line`` of a method or a declaration, or of the part itself."""
        item = registry.find(self.kind, self.name)
        method = inspect.unwrap(getattr(item, member, None) or item) if member else None
        code = getattr(method, "__code__", None)
        if code is not None and code.co_filename == str(self.info.file):
            return f"{code.co_filename}:{code.co_firstlineno}"
        return f"{self.info.file}:{self.info.lines.get(member, self.info.line)}"


def variants(candidate: Candidate) -> list[Candidate]:
    """The candidate, and a copy for each other value of a ``bool`` or ``Literal`` option that it does not set.

    A task has no variants: other values may need other data.
    """
    if candidate.kind == "task":
        return [candidate]
    changes = [
        {option.name: value}
        for option in candidate.info.options
        if option.name not in candidate.options
        for value in option.type.choices
        if value != option.default
    ]
    return [candidate, *(candidate.with_options(**change) for change in changes)]

"""A part whose laws are tried, and where in its file each of its members stands."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from attnx import registry
from attnx.registry.source_scan import Part


class NotTried(Exception):
    """A law cannot be tried with what there is here; its text says why."""


@dataclass(frozen=True)
class Candidate:
    """A part whose laws are tried.

    Attributes:
        kind: what kind of part it is.
        name: its registered name.
        knobs: the values of knobs it is built with; the others keep their defaults.
    """

    kind: str
    name: str
    knobs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def info(self) -> Part:
        """Its entry in the catalog."""
        return registry.part(self.kind, self.name)

    def declares(self, fact: str, default: Any = None) -> Any:
        """What its source declares."""
        return self.info.declares.get(fact, default)

    def build(self, **supplied: Any) -> Any:
        """Build it, without dropout: a law is about what a part computes."""
        part = registry.build(self.kind, (self.name, self.knobs), **supplied)
        return part.eval() if isinstance(part, nn.Module) else part

    def place(self, member: str = "") -> str:
        """``file:line`` of a method, of a declaration, or else of the part itself."""
        item = registry.find(self.kind, self.name)
        method = inspect.unwrap(getattr(item, member, None) or item) if member else None
        code = getattr(method, "__code__", None)
        if code is not None and code.co_filename == str(self.info.file):
            return f"{code.co_filename}:{code.co_firstlineno}"
        return f"{self.info.file}:{self.info.lines.get(member, self.info.line)}"

    def place_of_error(self, error: BaseException) -> str:
        """``file:line`` of the last line of the part's own file that an exception went through; else of the part."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.info.file)]
        return f"{self.info.file}:{frames[-1].lineno}" if frames else self.place()

"""The laws of every kernel that can be tried without knowing what it serves."""

from __future__ import annotations

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations
from attnx.laws.violation import require


def declarations(kernel: Candidate) -> None:
    """A kernel declares ``scorers``, ``scopes``, ``normalizers`` and ``priority``, and has a method ``supports``."""
    part = kernel.build()
    require_declarations(kernel, part)
    require(callable(part), "", "it cannot be called")
    require(callable(getattr(part, "supports", None)), "", f"{type(part).__name__} has no method supports")


QUICK = (declarations,)
LAWS = QUICK

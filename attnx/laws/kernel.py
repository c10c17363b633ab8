"""The laws of every kernel that can be tried without knowing what it serves."""

from __future__ import annotations

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations
from attnx.laws.violation import require


def declarations(kernel: Candidate) -> None:
    """A kernel declares the ``scorers``, ``scopes`` and ``normalizers`` that it serves and its ``rank``, and admits."""
    part = kernel.build()
    require_declarations(kernel, part)
    require(callable(part), "", "it cannot be called")
    require(callable(getattr(part, "admits", None)), "", f"{type(part).__name__} has no method admits")


QUICK = (declarations,)
LAWS = QUICK

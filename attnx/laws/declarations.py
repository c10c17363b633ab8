"""What each kind of part declares in its source, where the planner reads it before anything is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require
from attnx.registry.declarations import REQUIRED


def require_declarations(candidate: Candidate, part: Any) -> None:
    """Raise a violation unless the built part says what its source declares (:mod:`attnx.registry.declarations`)."""
    for fact in REQUIRED.get(candidate.kind, {}):
        declared, found = candidate.declares(fact), getattr(part, fact, None)
        require(found == declared, fact, f"the class declares {fact} = {declared!r}, and the object has {found!r}")


def require_methods(part: Any, methods: Sequence[str]) -> None:
    """Raise a violation unless the part is an ``nn.Module`` that has these methods of its own."""
    require(isinstance(part, nn.Module), "", f"it is {described(part)}, which is no torch.nn.Module")
    for name in methods:
        method = getattr(type(part), name, None)
        inherited = method is getattr(nn.Module, name, None)
        require(callable(method) and not inherited, "", f"{type(part).__name__} has no method {name}")

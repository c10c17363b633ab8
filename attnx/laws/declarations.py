"""Checks of a part's declarations and methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require
from attnx.registry.declarations import REQUIRED


def require_declarations(candidate: Candidate, part: Any) -> None:
    """Check that the built part agrees with the declarations in its source (:mod:`attnx.registry.declarations`)."""
    for fact in REQUIRED.get(candidate.kind, {}):
        declared, value = candidate.property_value(fact), getattr(part, fact, None)
        require(value == declared, fact, f"the class declares {fact} = {declared!r}, and the object has {value!r}")


def require_methods(part: Any, methods: Sequence[str]) -> None:
    """Check that the part is an ``nn.Module`` that defines these methods."""
    require(isinstance(part, nn.Module), "", f"it is {described(part)} instead of a torch.nn.Module")
    for name in methods:
        method = getattr(type(part), name, None)
        inherited = method is getattr(nn.Module, name, None)
        require(callable(method) and not inherited, "", f"{type(part).__name__} has no method {name}")

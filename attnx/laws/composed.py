"""The laws of attention for one of its parts, composed with parts of the core."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from attnx.laws import attention, attention_sources
from attnx.laws.candidate import Candidate

# The parts that the candidate is composed with; every law is checked with two scopes.
DEFAULT_PARTS: dict[str, Any] = {"scorer": "additive", "scope": "global", "normalizer": "softmax"}
LOCAL_SCOPE = ("local", {"window": 1})


def _attention_law(law: Callable[[attention.Parts], None]) -> Callable[[Candidate], None]:
    @functools.wraps(law)
    def checked_law(candidate: Candidate) -> None:
        for scope in ("global", LOCAL_SCOPE):
            law({**DEFAULT_PARTS, "scope": scope, candidate.kind: (candidate.name, candidate.knobs)})

    return checked_law


QUICK: tuple[Callable[[Candidate], None], ...] = ()
LAWS = tuple(_attention_law(law) for law in (*attention.LAWS, *attention_sources.LAWS))

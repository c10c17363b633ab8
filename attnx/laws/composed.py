"""The laws of attention for one part of it, composed with parts of the core."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from attnx.laws import attention, attention_sources
from attnx.laws.candidate import Candidate

# A part is tried with these beside it, and with a scope that bounds what is read.
BESIDE: dict[str, Any] = {"scorer": "additive", "scope": "global", "normalizer": "softmax"}
BOUNDED = ("local", {"window": 1})


def _of_attention(law: Callable[[attention.Parts], None]) -> Callable[[Candidate], None]:
    @functools.wraps(law)
    def holds(candidate: Candidate) -> None:
        for scope in ("global", BOUNDED):
            law({**BESIDE, "scope": scope, candidate.kind: (candidate.name, candidate.knobs)})

    return holds


QUICK: tuple[Callable[[Candidate], None], ...] = ()
LAWS = tuple(_of_attention(law) for law in (*attention.LAWS, *attention_sources.LAWS))

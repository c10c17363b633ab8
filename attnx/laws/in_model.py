"""The laws of a model for one of its parts, in a small seq2seq model of core parts."""

from __future__ import annotations

import functools
from collections.abc import Callable

from attnx.laws import model
from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.small import model_with
from attnx.laws.violation import Violation

# These read stories, points or series; tests/laws has laws for each.
MODELS_WITH_OTHER_DATA = ("entity", "history", "pointer")


def _model_law(law: Callable[[model.Case], None]) -> Callable[[Candidate], None]:
    @functools.wraps(law)
    def checked_law(candidate: Candidate) -> None:
        if candidate.kind == "model" and candidate.name in MODELS_WITH_OTHER_DATA:
            raise LawSkipped("the laws use symbols, but this model reads or outputs other data")
        try:
            law(model.Case(model_with(candidate)))
        except Violation as broken:  # its member is the model's
            raise Violation(broken.member if candidate.kind == "model" else "", broken.message) from None

    return checked_law


QUICK: tuple[Callable[[Candidate], None], ...] = ()
LAWS = tuple(_model_law(law) for law in model.MODEL_LAWS)

"""The laws of a model for one part of it, in a small sequence-to-sequence model whose other parts are the core's."""

from __future__ import annotations

import functools
from collections.abc import Callable

from attnx.laws import model
from attnx.laws.candidate import Candidate, NotTried
from attnx.laws.small import model_with
from attnx.laws.violation import Violation

# These read stories, points or series: tests/laws has laws of each.
OF_OTHER_DATA = ("entity", "history", "pointer")


def _of_model(law: Callable[[model.Case], None]) -> Callable[[Candidate], None]:
    @functools.wraps(law)
    def holds(candidate: Candidate) -> None:
        if candidate.kind == "model" and candidate.name in OF_OTHER_DATA:
            raise NotTried("the laws give a model symbols, and this one reads or writes something else")
        try:
            law(model.Case(model_with(candidate)))
        except Violation as broken:  # the member that it names is the model's
            raise Violation(broken.member if candidate.kind == "model" else "", broken.found) from None

    return holds


QUICK: tuple[Callable[[Candidate], None], ...] = ()
LAWS = tuple(_of_model(law) for law in model.OF_A_CASE)

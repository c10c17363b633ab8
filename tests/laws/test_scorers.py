"""Laws of every scorer."""

from __future__ import annotations

from typing import Any

import pytest

from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.recurrence import RecurrentScorerLaws
from attnx.laws.scorer import ScorerLaws

pytestmark = pytest.mark.usefixtures("float64")


LAWS = [*ScorerLaws.collect(), *RecurrentScorerLaws.collect()]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.method)
def test_law(law: Any, each_scorer: tuple[str, dict[str, Any]]) -> None:
    try:
        law.check(Candidate("scorer", *each_scorer))
    except LawSkipped as reason:
        pytest.skip(str(reason))

"""Laws of every scorer."""

from __future__ import annotations

from typing import Any

import pytest

from attnx.laws.candidate import Candidate
from attnx.laws.scorer import ScorerLaws

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("law", ScorerLaws.collect(), ids=lambda law: law.method)
def test_law(law: Any, each_scorer: tuple[str, dict[str, Any]]) -> None:
    law.check(Candidate("scorer", *each_scorer))

"""Laws of every scorer."""

from __future__ import annotations

from typing import Any

import pytest

from attnx.laws import scorer
from attnx.laws.candidate import Candidate

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("law", scorer.LAWS)
def test_law(law: Any, each_scorer: tuple[str, dict[str, Any]]) -> None:
    law(Candidate("scorer", *each_scorer))

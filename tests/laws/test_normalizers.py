"""Laws of every normalizer."""

from __future__ import annotations

from typing import Any

import pytest

from attnx import registry
from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.normalizer import NormalizerLaws
from attnx.laws.recurrence import RecurrentNormalizerLaws

pytestmark = pytest.mark.usefixtures("float64")
LAWS = [*NormalizerLaws.collect(), *RecurrentNormalizerLaws.collect()]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.method)
def test_law(law: Any, each_normalizer: tuple[str, dict[str, Any]]) -> None:
    try:
        law.check(Candidate("normalizer", *each_normalizer))
    except LawSkipped as reason:
        pytest.skip(str(reason))


def test_every_normalizer_of_the_core_has_a_temperature() -> None:
    """So that the law of it is tried."""
    for part in (registry.describe("normalizer", name) for name in registry.names("normalizer")):
        assert part.origin != "core" or "temperature" in [knob.name for knob in part.knobs]

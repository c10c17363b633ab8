"""Laws of every normaliser."""

from __future__ import annotations

from typing import Any

import pytest

from attnx import registry
from attnx.laws import normaliser
from attnx.laws.candidate import Candidate

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("law", normaliser.LAWS)
def test_law(law: Any, each_normaliser: tuple[str, dict[str, Any]]) -> None:
    law(Candidate("normaliser", *each_normaliser))


def test_every_normaliser_of_the_core_has_a_temperature() -> None:
    """So that the law of it is tried."""
    for part in (registry.part("normaliser", name) for name in registry.names("normaliser")):
        assert part.origin != "core" or "temperature" in [knob.name for knob in part.knobs]

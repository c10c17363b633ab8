"""Laws of every scope, and the local window position by position."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnx import registry
from attnx.laws.candidate import Candidate
from attnx.laws.scope import LENGTHS, SIZES, STEPS, WIDTH, growing, memory_mask, require_same_mask

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]


def make(choice: Choice) -> Any:
    return Candidate("scope", *choice).build(**SIZES)


CORE = [name for name in registry.names("scope") if registry.describe("scope", name).origin == "core"]


@pytest.mark.parametrize("sources", [["encoder"], ["decoder"], ["encoder", "decoder"]], ids="+".join)
@pytest.mark.parametrize("name", CORE)
def test_every_scope_takes_any_sources(name, sources):
    """They are where, and the scope is which: what it allows of one source is the same."""
    inputs = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), growing()
    scope = make((name, {"sources": sources, "include_self": True}))
    assert scope.sources == tuple(sources)
    require_same_mask(scope(*inputs), make((name, {}))(*inputs), "of other sources")


def window_of(center: int, window: int, length: int) -> list[bool]:
    """Which of 7 positions lie within the window and the row."""
    return [position < length and abs(position - center) <= window for position in range(7)]


@pytest.mark.parametrize("window", [0, 1, 2, 3, 13])
def test_local_monotonic_window(window):
    """Exactly the positions within ``window`` of min(t, S - 1), for rows of unlike length and steps beyond them."""
    steps = 11
    scope = make(("local", {"window": window}))
    allowed_mask = scope(torch.randn(4, steps, WIDTH), torch.arange(steps), memory_mask()).allowed_mask
    expected = [[window_of(min(step, length - 1), window, length) for step in range(steps)] for length in LENGTHS]
    assert allowed_mask.tolist() == expected


@pytest.mark.parametrize("window", [0, 1, 2, 3, 13])
def test_local_predictive_window(window):
    """Exactly the positions within ``window`` of the one nearest to the predicted center, p = S sigmoid(...)."""
    scope = make(("local", {"window": window, "center": "predictive"}))
    for parameter in scope.parameters():
        torch.nn.init.normal_(parameter, std=3.0)  # centers from one end to the other
    queries = torch.randn(4, 11, WIDTH)
    allowed_mask = scope(queries, torch.arange(11), memory_mask()).allowed_mask
    share = torch.sigmoid(scope.center_predictor(queries)[..., 0])
    for row, length in enumerate(LENGTHS):
        for step in range(11):
            center = min(round(length * share[row, step].item()), length - 1)
            assert allowed_mask[row, step].tolist() == window_of(center, window, length)


def test_only_a_predictive_window_has_a_gain():
    queries, steps = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    assert make(("local", {"center": "predictive"}))(queries, steps, memory_mask()).gain is not None
    assert make(("local", {"center": "monotonic"}))(queries, steps, memory_mask()).gain is None
    assert make(("global", {}))(queries, steps, memory_mask()).gain is None

"""How often a verdict names a winner, by simulation."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "verdict_simulation.py"


@pytest.fixture(scope="module")
def simulation() -> Any:
    spec = importlib.util.spec_from_file_location("verdict_simulation", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("noise", ["normal", "skewed"])
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize(("settings", "grids"), [(2, 400), (6, 100), (24, 30)])
def test_equal_settings_have_a_winner_in_at_most_five_percent(
    simulation: Any, settings: int, grids: int, seeds: int, noise: str
) -> None:
    """Of two settings it is a t-test, which has its level; of more, a winner must be far from all others."""
    right, wrong = simulation.winner_shares(settings, seeds, 0, noise, grids)
    assert right + wrong <= (0.02 if settings > 2 else 0.05 + 3 * math.sqrt(0.05 * 0.95 / grids))


@pytest.mark.parametrize(("settings", "seeds", "lead", "grids"), [(6, 2, 3, 200), (6, 3, 3, 200), (24, 5, 3, 30)])
def test_a_better_setting_is_found_more_often_than_by_pairs(
    simulation: Any, settings: int, seeds: int, lead: int, grids: int
) -> None:
    share, wrong = simulation.winner_shares(settings, seeds, lead, "normal", grids)
    share_by_pairs, _ = simulation.winner_shares(settings, seeds, lead, "normal", grids, simulation.paired_holm)
    assert share > share_by_pairs + 0.1
    assert wrong <= 0.05

"""How often a verdict names a winner, by simulation."""

import importlib.util
import math
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "verdict_simulation.py"


@pytest.fixture(scope="module")
def simulation():
    spec = importlib.util.spec_from_file_location("verdict_simulation", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("spread", "most"),
    [("equal", 0.06), ("half", 0.1), ("quarter", 0.1), ("wide", 0.1), ("narrow", 0.06), ("bad", 0.06)],
)
def test_equal_settings_seldom_differ(simulation, spread, most):
    """The aims of docs/reports.md, with two standard errors of the simulation."""
    grids = 150
    shares = simulation.simulate(simulation.Cell(6, 3, spread=spread), grids)
    assert shares.false_difference <= most + 2 * math.sqrt(most * (1 - most) / grids)
    assert shares.false_winner <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / grids)


@pytest.mark.parametrize(("seeds", "least"), [(3, 0.45), (5, 0.8)])
def test_a_setting_that_leads_by_three_deviations_is_named(simulation, seeds, least):
    grids = 150
    shares = simulation.simulate(simulation.Cell(6, seeds, lead=3.0), grids)
    assert shares.winner >= least - 2 * math.sqrt(least * (1 - least) / grids)
    assert shares.false_winner <= 0.02

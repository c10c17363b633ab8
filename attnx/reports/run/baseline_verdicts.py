"""Whether a run beats the baselines of its task, in words."""

from __future__ import annotations

from attnx.reports.measure_names import TEST, label, more_is_better
from attnx.reports.significant_digits import format_interval, format_value
from attnx.runs.results_json import BaselineDifference
from attnx.runs.run import Run

FORECASTS = {"naive": "the last value", "seasonal": "the last season"}
"""What baselines forecast; others go by their names."""


def baseline_verdicts(run: Run) -> dict[str, str]:
    """Whether the run beats each baseline in each measure, by the names of the baselines' own measures."""
    return {
        f"{TEST}{baseline}_{measure.removeprefix(TEST)}": baseline_verdict(baseline, measure, difference)
        for baseline, differences in run.baselines.items()
        for measure, difference in differences.items()
    }


def baseline_verdict(baseline: str, measure: str, found: BaselineDifference) -> str:
    """Say whether a run is better than a baseline in a measure, and by how much.

    >>> baseline_verdict("naive", "test_mse", BaselineDifference(0.0075, 0.0031, 0.0122))
    'is worse than the last value: MSE 0.0075 higher (0.0031 to 0.0122)'
    >>> baseline_verdict("linear", "test_mse", BaselineDifference(-0.0012, -0.0050, 0.0031))
    'cannot be told from linear: MSE 0.0012 lower (0.0050 lower to 0.0031 higher)'
    """
    difference, *edges = found
    low, high = edges
    who, by = FORECASTS.get(baseline, baseline), f"{label(measure)} {_apart(difference, low, high)}"
    if low <= 0 <= high:
        return f"cannot be told from {who}: {by} ({' to '.join(_apart(edge, low, high) for edge in edges)})"
    more = more_is_better(measure)
    judged = "differs from" if more is None else "is better than" if more == (low > 0) else "is worse than"
    return f"{judged} {who}: {by} ({format_interval(*sorted(map(abs, edges)))})"


def _apart(difference: float, low: float, high: float) -> str:
    """How far something is above or below what it is compared with, with the digits of the interval."""
    if not difference:
        return "no different"
    return f"{format_value(abs(float(difference)), (low, high))} {'higher' if difference > 0 else 'lower'}"

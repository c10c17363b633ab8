"""Sentences that compare a run with the baselines of its task."""

from __future__ import annotations

from attnx.reports.measure_names import TEST, is_higher_better, label
from attnx.reports.significant_digits import format_interval, format_value
from attnx.runs.results_json import BaselineDifference
from attnx.runs.run import Run

FORECASTS = {"naive": "the last value", "seasonal": "the last season"}
"""Descriptions of baselines; the rest go by their names."""


def baseline_verdicts(run: Run) -> dict[str, str]:
    """The comparison with each baseline in each metric, by the name of the baseline's metric."""
    return {
        f"{TEST}{baseline}_{measure.removeprefix(TEST)}": baseline_verdict(baseline, measure, difference)
        for baseline, differences in run.baselines.items()
        for measure, difference in differences.items()
    }


def baseline_verdict(baseline: str, measure: str, difference: BaselineDifference) -> str:
    """Whether a run is better than a baseline in a metric, and by how much.

    >>> baseline_verdict("naive", "test_mse", BaselineDifference(0.0075, 0.0031, 0.0122))
    'is worse than the last value: MSE 0.0075 higher (0.0031 to 0.0122)'
    >>> baseline_verdict("linear", "test_mse", BaselineDifference(-0.0012, -0.0050, 0.0031))
    'does not differ significantly from linear: MSE 0.0012 lower (0.0050 lower to 0.0031 higher)'
    """
    value, *ends = difference
    low, high = ends
    name, text = FORECASTS.get(baseline, baseline), f"{label(measure)} {_difference_text(value, low, high)}"
    if low <= 0 <= high:
        interval = " to ".join(_difference_text(end, low, high) for end in ends)
        return f"does not differ significantly from {name}: {text} ({interval})"
    is_higher = is_higher_better(measure)
    verdict = "differs from" if is_higher is None else "is better than" if is_higher == (low > 0) else "is worse than"
    return f"{verdict} {name}: {text} ({format_interval(*sorted(map(abs, ends)))})"


def _difference_text(difference: float, low: float, high: float) -> str:
    """A difference in words, with the digits of the interval."""
    if not difference:
        return "no different"
    return f"{format_value(abs(float(difference)), (low, high))} {'higher' if difference > 0 else 'lower'}"

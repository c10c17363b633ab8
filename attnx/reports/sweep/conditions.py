"""Conditions in which compared runs differ but should not: steps, time, training data."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

from attnx.reports.stats.mean_difference import SIGNIFICANCE_LEVEL
from attnx.reports.sweep.load_runs import DATA, RunRecord
from attnx.reports.sweep.measures import Measure, run_value

STEPS = "steps"
MIN_RUNS_FOR_CORRELATION = 4


def unequal_conditions(runs: Sequence[RunRecord], measure: Measure | None) -> list[str]:
    """A sentence for each condition in which runs differ.

    Args:
        runs: that are ranked together.
        measure: the main metric, to report its rank correlation with steps.
    """
    return [*_unequal_steps(runs, measure), *_unequal_data(runs)]


def steps_range(runs: Sequence[RunRecord]) -> str:
    """The training steps of runs as text: one number, or the least and the most."""
    counts = sorted({int(run.results[STEPS]) for run in runs if STEPS in run.results})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([*counts[:1], *counts[-1:]]))


def _unequal_steps(runs: Sequence[RunRecord], measure: Measure | None) -> list[str]:
    counts = [int(run.results[STEPS]) for run in runs if STEPS in run.results]
    if len(set(counts)) < 2:
        return []
    if {run.budget for run in runs} == {"time"}:
        fact = "All runs had the same training time, but not the same number of steps"
        caveat = "the ranking includes what a setting costs on the machine that it ran on"
    else:
        fact = "The runs did not train for the same number of steps"
        caveat = "a difference may come from the training, not from the settings"
    return [f"{fact} ({min(counts):,} to {max(counts):,}): {caveat}{_correlation(runs, measure)}."]


def _correlation(runs: Sequence[RunRecord], measure: Measure | None) -> str:
    """The rank correlation of steps and metric, if it is significant."""
    if measure is None:
        return ""
    pairs = [(run.results[STEPS], run_value(run, measure.key)) for run in runs if STEPS in run.results]
    pairs = [(steps, value) for steps, value in pairs if value is not None]
    if len(pairs) < MIN_RUNS_FOR_CORRELATION or len({value for _, value in pairs}) < 2:
        return ""
    test = stats.spearmanr(*zip(*pairs, strict=True))
    if not test.pvalue < SIGNIFICANCE_LEVEL:
        return ""
    return f" (steps and {measure.label}: rank correlation {test.statistic:+.2f})"


def _unequal_data(runs: Sequence[RunRecord]) -> list[str]:
    names = {str(run.choices[DATA]) for run in runs if DATA in run.choices}
    if len(names) < 2:
        return []
    return [
        f"The runs were trained on {len(names)} different data sets: a difference may come from the data, not from the "
        "settings."
    ]

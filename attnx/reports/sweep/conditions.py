"""What runs that are ranked together were not alike in, though they should be: steps, time, training data."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

from attnx.reports.stats.mean_difference import LEVEL
from attnx.reports.sweep.load_runs import DATA, RunRecord
from attnx.reports.sweep.measures import Measure, value_of

STEPS = "steps"


def unequal_conditions(runs: Sequence[RunRecord], measure: Measure | None) -> list[str]:
    """A sentence for each condition in which runs differ.

    Args:
        runs: that are ranked together.
        measure: the main one, to say how far steps alone order the runs.
    """
    return [*_steps(runs, measure), *_data(runs)]


def steps_of(runs: Sequence[RunRecord]) -> str:
    """How many steps runs trained for, as text: one number, or from the least to the most."""
    counts = sorted({int(run.results[STEPS]) for run in runs if STEPS in run.results})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([*counts[:1], *counts[-1:]]))


def _steps(runs: Sequence[RunRecord], measure: Measure | None) -> list[str]:
    counts = [int(run.results[STEPS]) for run in runs if STEPS in run.results]
    if len(set(counts)) < 2:
        return []
    if {run.budget for run in runs} == {"time"}:
        what = "Each run had the same time, not the same steps"
        meaning = "a choice is ranked with what it costs, on the machine that it ran on"
    else:
        what = "The runs did not train for the same number of steps"
        meaning = "a difference may be one of training, not of the choices"
    return [f"{what} ({min(counts):,} to {max(counts):,}): {meaning}{_order(runs, measure)}."]


def _order(runs: Sequence[RunRecord], measure: Measure | None) -> str:
    """How far steps order the runs as the measure does, if that is no chance."""
    if measure is None:
        return ""
    both = [(run.results[STEPS], value_of(run, measure.key)) for run in runs if STEPS in run.results]
    known = [(steps, value) for steps, value in both if value is not None]
    if len(known) < 4 or len({value for _, value in known}) < 2:
        return ""
    found = stats.spearmanr(*zip(*known, strict=True))
    if not found.pvalue < LEVEL:
        return ""
    return f" (steps and {measure.label}: rank correlation {found.statistic:+.2f})"


def _data(runs: Sequence[RunRecord]) -> list[str]:
    names = dict.fromkeys(str(run.choices[DATA]) for run in runs if DATA in run.choices)
    if len(names) < 2:
        return []
    return [
        f"The runs were trained on {len(names)} different data: a difference may be one of data, not of the choices."
    ]

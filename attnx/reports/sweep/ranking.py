"""Ranks settings by a measure, and says of each how surely it is behind the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from attnx.reports.measure_names import TEST
from attnx.reports.significant_digits import digits_for
from attnx.reports.stats.mean_difference import LEVEL, MeanDifference
from attnx.reports.stats.multiple_comparisons import Spread, compare_draws_with_best, compare_with_best, pooled_spread
from attnx.reports.stats.two_sources import difference_interval, resample_means
from attnx.reports.sweep.evaluated_examples import Numbers, TestedExamples, rate, resampled_rates
from attnx.reports.sweep.load_runs import RunRecord
from attnx.reports.sweep.measures import Measure, value_of
from attnx.reports.sweep.settings import Setting

TINY = 1e-9  # an interval that is no wider is of one number
AGREE = 0.01  # points by which a rate counted again may differ from the one that was written


class RankedSetting(NamedTuple):
    """A setting by one measure.

    Attributes:
        place: its number among the settings.
        values: by seed.
        interval: of its mean over seeds, 95 %; None where no seed is repeated.
        behind: how far behind the best it is, its interval and p-value, all comparisons allowed for; None of the best,
            or if that is unknown. Above zero is worse, whichever way the measure goes.
        both_sources: the interval of the same over other test examples as well as other seeds, if that is known.
    """

    place: int
    values: dict[Any, float]
    interval: tuple[float, float] | None = None
    behind: MeanDifference | None = None
    both_sources: tuple[float, float] | None = None

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.values.values())

    @property
    def sd(self) -> float | None:
        """Over seeds; None of one."""
        return stdev(self.values.values()) if len(self.values) > 1 else None


def ranked(
    settings: Sequence[Setting], measure: Measure, tests: Mapping[Path, TestedExamples]
) -> tuple[list[RankedSetting], Spread]:
    """Settings by a measure, best first, and how they spread over seeds; those that lack the measure are left out.

    Args:
        settings: all that are compared.
        measure: by what.
        tests: of runs by their folders: what their examples say.
    """
    sign = -1 if measure.more else 1
    rows = [RankedSetting(place, _values(setting.runs, measure)) for place, setting in enumerate(settings)]
    rows = sorted((row for row in rows if row.values), key=lambda row: sign * row.mean)
    groups = [[sign * value for value in row.values.values()] for row in rows]
    spread = pooled_spread(groups) if rows else Spread(0.0, 0, None)
    rows = [row._replace(interval=_interval(row, spread)) for row in rows]
    if len(rows) < 2:
        return rows, spread
    drawn = _drawn({row.place: _runs(settings[row.place], row) for row in rows}, measure, tests)
    if spread.degrees:
        behind = dict(zip((row.place for row in rows), compare_with_best(groups), strict=True))
    elif rows[0].place in drawn:
        kept = [row for row in rows if row.place in drawn]
        draws = np.concatenate([sign * drawn[row.place] for row in kept], axis=1)
        gaps = compare_draws_with_best([sign * row.mean for row in kept], draws) if len(kept) > 1 else [None]
        behind = dict(zip((row.place for row in kept), gaps, strict=True))
    else:
        behind = {}
    rows = [row._replace(behind=behind.get(row.place)) for row in rows]
    if spread.variance > 0 and len(drawn) == len(rows):
        means = resample_means([sign * drawn[row.place] for row in rows], groups)
        best, *others = rows
        intervals = [difference_interval(means, number, 0) for number in range(1, len(rows))]
        rows = [best, *(row._replace(both_sources=one) for row, one in zip(others, intervals, strict=True))]
    return rows, spread


def supported_digits(rows: Sequence[RankedSetting], default: int) -> int:
    """How many digits behind the point the narrowest interval of a mean supports, or of a distance to the best."""
    means = [row.interval for row in rows if row.interval]
    intervals = means or [(row.behind.low, row.behind.high) for row in rows if row.behind]
    return max((digits_for(low, high) for low, high in intervals if high - low > TINY), default=default)


def _values(runs: Sequence[RunRecord], measure: Measure) -> dict[Any, float]:
    found = {run.seed: value_of(run, measure.key) for run in runs}
    return {seed: value for seed, value in found.items() if value is not None and math.isfinite(value)}


def _interval(row: RankedSetting, spread: Spread) -> tuple[float, float] | None:
    """Student's, by the spread of all settings; by the setting's own if settings differ in it."""
    count = len(row.values)
    variance, degrees = (spread.variance, spread.degrees) if spread.is_equal else ((row.sd or 0) ** 2, count - 1)
    if not degrees:
        return None
    half = float(stats.t.ppf(1 - LEVEL / 2, degrees)) * math.sqrt(variance / count)
    return row.mean - half, row.mean + half


def _runs(setting: Setting, row: RankedSetting) -> list[RunRecord]:
    """The runs that were measured, one of each seed."""
    by_seed = {run.seed: run for run in setting.runs}
    return [by_seed[seed] for seed in row.values]


def _drawn(
    settings: Mapping[int, Sequence[RunRecord]], measure: Measure, tests: Mapping[Path, TestedExamples]
) -> dict[int, Numbers]:
    """Of each setting (samples, seeds) the measure on other draws of the test's examples, the same draws for all runs.

    Counted from the predictions, or as it was when the runs were tested; settings with a run that has neither are left
    out.
    """
    name = measure.key.removeprefix(TEST)
    runs = [run for group in settings.values() for run in group]
    columns: dict[Path, Numbers] = {}
    if again := [run.path for run in runs if _is_recounted(run, name, measure, tests)]:
        columns = dict(zip(again, resampled_rates([tests[path] for path in again], name).T, strict=True))
    else:
        kept = {
            run.path: tests[run.path] for run in runs if run.path in tests and measure.key in tests[run.path].resampled
        }
        if len({test.order for test in kept.values()}) == 1:  # those of another order were drawn otherwise
            columns = {path: test.resampled[measure.key] for path, test in kept.items()}
    return {
        place: np.stack([columns[run.path] for run in group], axis=1)
        for place, group in settings.items()
        if all(run.path in columns for run in group)
    }


def _is_recounted(run: RunRecord, name: str, measure: Measure, tests: Mapping[Path, TestedExamples]) -> bool:
    """Whether the predictions are there and give the value that was written; if not, they are not what it was of."""
    if not measure.key.startswith(TEST):
        return False
    found = rate(tests[run.path], name) if run.path in tests else None
    return found is not None and abs(found - run.results[measure.key]) < AGREE

"""Ranks settings by a metric, and tests the difference of each from the best."""

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
from attnx.reports.stats.bootstrap import percentile_interval
from attnx.reports.stats.mean_difference import SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.stats.multiple_comparisons import (
    PooledVariance,
    compare_draws_with_best,
    compare_with_best,
    pool_variance,
)
from attnx.reports.stats.two_sources import resample_means
from attnx.reports.sweep.evaluated_examples import Numbers, TestedExamples, rate, resampled_rates
from attnx.reports.sweep.load_runs import RunRecord
from attnx.reports.sweep.measures import Measure, run_value
from attnx.reports.sweep.settings import Setting

MIN_INTERVAL_WIDTH = 1e-9  # a narrower interval is of one number
MAX_RECOUNT_ERROR = 0.01  # points between a rate counted again and the saved one


class RankedSetting(NamedTuple):
    """A setting by one metric.

    Attributes:
        setting: its index.
        values: by seed.
        interval: the 95 % interval of its mean over seeds; None if no seed is repeated.
        difference: from the best, adjusted for all comparisons; None for the best, and if unknown. Above zero is worse,
            whether higher or lower values are better.
        both_sources: the interval of the difference over both seeds and test examples, if known.
    """

    setting: int
    values: dict[Any, float]
    interval: tuple[float, float] | None = None
    difference: MeanDifference | None = None
    both_sources: tuple[float, float] | None = None

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.values.values())

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds; None with one seed."""
        return stdev(self.values.values()) if len(self.values) > 1 else None


def rank_settings(
    settings: Sequence[Setting], measure: Measure, tests: Mapping[Path, TestedExamples]
) -> tuple[list[RankedSetting], PooledVariance]:
    """Rank settings by a metric, best first, and pool their variance over seeds; settings without it are left out.

    Args:
        settings: all that are compared.
        measure: the metric.
        tests: the test examples of runs, by their folders.
    """
    sign = -1 if measure.is_higher_better else 1
    rows = [RankedSetting(index, _values(setting.runs, measure)) for index, setting in enumerate(settings)]
    rows = sorted((row for row in rows if row.values), key=lambda row: sign * row.mean)
    groups = [[sign * value for value in row.values.values()] for row in rows]
    pooled = pool_variance(groups) if rows else PooledVariance(0.0, 0, None)
    rows = [row._replace(interval=_interval(row, pooled)) for row in rows]
    if len(rows) < 2:
        return rows, pooled
    draws = _draws({row.setting: _measured_runs(settings[row.setting], row) for row in rows}, measure, tests)
    draws = {index: sign * values for index, values in draws.items()}
    differences = _differences(rows, groups, pooled, draws, sign)
    rows = [row._replace(difference=differences.get(row.setting)) for row in rows]
    if pooled.variance > 0 and len(draws) == len(rows):
        means = resample_means([draws[row.setting] for row in rows], groups)
        intervals = [percentile_interval(means[:, rank] - means[:, 0]) for rank in range(1, len(rows))]
        rows[1:] = [row._replace(both_sources=interval) for row, interval in zip(rows[1:], intervals, strict=True)]
    return rows, pooled


def _differences(
    rows: Sequence[RankedSetting],
    groups: Sequence[Sequence[float]],
    pooled: PooledVariance,
    draws: Mapping[int, Numbers],
    sign: int,
) -> dict[int, MeanDifference | None]:
    """Differences from the best: over seeds, or with one seed each over test examples; empty if neither is possible."""
    if pooled.degrees:
        return dict(zip((row.setting for row in rows), compare_with_best(groups), strict=True))
    comparable = [row for row in rows if row.setting in draws]
    if rows[0].setting not in draws or len(comparable) < 2:
        return {}
    columns = np.concatenate([draws[row.setting] for row in comparable], axis=1)
    differences = compare_draws_with_best([sign * row.mean for row in comparable], columns)
    return dict(zip((row.setting for row in comparable), differences, strict=True))


def supported_digits(rows: Sequence[RankedSetting], default: int) -> int:
    """Digits after the point that the narrowest interval supports, of a mean or else of a difference."""
    means = [row.interval for row in rows if row.interval]
    intervals = means or [(row.difference.low, row.difference.high) for row in rows if row.difference]
    return max((digits_for(low, high) for low, high in intervals if high - low > MIN_INTERVAL_WIDTH), default=default)


def _values(runs: Sequence[RunRecord], measure: Measure) -> dict[Any, float]:
    values = {run.seed: run_value(run, measure.key) for run in runs}
    return {seed: value for seed, value in values.items() if value is not None and math.isfinite(value)}


def _interval(row: RankedSetting, pooled: PooledVariance) -> tuple[float, float] | None:
    """Student's interval, with the pooled variance, or the setting's if variances are not homogeneous."""
    count = len(row.values)
    variance, degrees = pooled.variance, pooled.degrees
    if not pooled.is_homogeneous:
        variance, degrees = (row.sd or 0) ** 2, count - 1
    if not degrees:
        return None
    half = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2, degrees)) * math.sqrt(variance / count)
    return row.mean - half, row.mean + half


def _measured_runs(setting: Setting, row: RankedSetting) -> list[RunRecord]:
    """The runs with a value, one per seed."""
    by_seed = {run.seed: run for run in setting.runs}
    return [by_seed[seed] for seed in row.values]


def _draws(
    settings: Mapping[int, Sequence[RunRecord]], measure: Measure, tests: Mapping[Path, TestedExamples]
) -> dict[int, Numbers]:
    """(samples, seeds) per setting: the metric on resampled test examples, the same samples for all runs.

    They are counted from the predictions, or read from the runs' bootstrap files; settings with a run that has neither
    are left out.
    """
    name = measure.key.removeprefix(TEST)
    runs = [run for group in settings.values() for run in group]
    columns: dict[Path, Numbers] = {}
    if recounted := [run.path for run in runs if _can_recount(run, name, measure, tests)]:
        columns = dict(zip(recounted, resampled_rates([tests[path] for path in recounted], name).T, strict=True))
    else:
        tested = {run.path: tests[run.path] for run in runs if run.path in tests}
        tested = {path: test for path, test in tested.items() if measure.key in test.resampled}
        if len({test.order for test in tested.values()}) == 1:  # tests of different orders do not share samples
            columns = {path: test.resampled[measure.key] for path, test in tested.items()}
    return {
        index: np.stack([columns[run.path] for run in group], axis=1)
        for index, group in settings.items()
        if all(run.path in columns for run in group)
    }


def _can_recount(run: RunRecord, name: str, measure: Measure, tests: Mapping[Path, TestedExamples]) -> bool:
    """Whether a rate counted from the predictions agrees with the saved one."""
    if not measure.key.startswith(TEST):
        return False
    recounted = rate(tests[run.path], name) if run.path in tests else None
    return recounted is not None and abs(recounted - run.results[measure.key]) < MAX_RECOUNT_ERROR

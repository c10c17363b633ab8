"""Ranks settings by a metric, and tests the difference of each from the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from attnx.reports.metric_names import TEST
from attnx.reports.significant_digits import digits_for
from attnx.reports.stats.bootstrap import percentile_interval, resample_means
from attnx.reports.stats.multiple_comparisons import (
    SIGNIFICANCE_LEVEL,
    MeanDifference,
    compare_draws_with_best,
    compare_with_best,
)
from attnx.reports.stats.pooled_variance import PooledVariance, pool_variance
from attnx.reports.sweep.evaluated_examples import Numbers, resample_rates
from attnx.reports.sweep.metrics import Metric, run_value
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.settings import Setting

MIN_INTERVAL_WIDTH = 1e-9  # a narrower interval is of one number
MAX_VALUE = 1e150  # whose square is a number; no value is NaN, which is less than nothing
MAX_RECOUNT_ERROR = 0.01  # points between a rate counted again and the saved one


class RankedSetting(NamedTuple):
    """A setting, by its index, its values of a metric by seed, and the 95 % interval of their mean, None if unknown.

    ``difference`` is from the best, adjusted for all comparisons; None for the best. Above zero is worse, whether
    higher or lower values are better. ``both_sources`` is its interval over both seeds and test examples.
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


@dataclass
class Ranking:
    """Settings by a metric, best first, and their variance over seeds; ``settings`` are all, also those without it."""

    settings: Sequence[Setting]
    metric: Metric
    rows: list[RankedSetting]
    pooled: PooledVariance

    @property
    def undecided(self) -> list[RankedSetting]:
        """Settings after the first that do not differ significantly from it."""
        return [row for row in self.rows[1:] if row.difference is None or row.difference.p >= SIGNIFICANCE_LEVEL]

    @property
    def has_winner(self) -> bool:
        """Whether the first setting won: there are several seeds, and all differences from it are significant."""
        return bool(self.pooled.degrees) and len(self.rows) > 1 and not self.undecided

    def name(self, row: RankedSetting) -> str:
        """A setting's name in double asterisks."""
        return f"**{self.settings[row.setting].name}**"


def rank_settings(settings: Sequence[Setting], metric: Metric) -> Ranking:
    """Rank settings by a metric, and pool their variance over seeds; settings without it are left out."""
    sign = -1 if metric.is_higher_better else 1
    rows = [RankedSetting(index, _values(setting.runs, metric)) for index, setting in enumerate(settings)]
    rows = sorted((row for row in rows if row.values), key=lambda row: sign * row.mean)
    groups = [[sign * value for value in row.values.values()] for row in rows]
    pooled = pool_variance(groups) if rows else PooledVariance(0.0, 0, None)
    rows = [row._replace(interval=_interval(row, pooled, rank)) for rank, row in enumerate(rows)]
    if len(rows) > 1:
        runs = {row.setting: [run for run in settings[row.setting].runs if run.seed in row.values] for row in rows}
        draws = {index: sign * values for index, values in _draws(runs, metric).items()}
        differences = _differences(rows, groups, pooled, draws, sign)
        rows = [row._replace(difference=differences.get(row.setting)) for row in rows]
        if pooled.variance > 0 and len(draws) == len(rows):
            means = resample_means([draws[row.setting] for row in rows], groups, pooled)
            intervals = [percentile_interval(means[:, rank] - means[:, 0]) for rank in range(1, len(rows))]
            rows[1:] = [row._replace(both_sources=interval) for row, interval in zip(rows[1:], intervals, strict=True)]
    return Ranking(settings, metric._replace(digits=_supported_digits(rows, metric.digits)), rows, pooled)


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


def _supported_digits(rows: Sequence[RankedSetting], default: int) -> int:
    """Digits after the point that the narrowest interval supports, of a mean or else of a difference."""
    means = [row.interval for row in rows if row.interval]
    intervals = means or [(row.difference.low, row.difference.high) for row in rows if row.difference]
    return max((digits_for(low, high) for low, high in intervals if high - low > MIN_INTERVAL_WIDTH), default=default)


def _values(runs: Sequence[RunRecord], metric: Metric) -> dict[Any, float]:
    values = {run.seed: run_value(run, metric.key) for run in runs}
    return {seed: value for seed, value in values.items() if value is not None and abs(value) < MAX_VALUE}


def _interval(row: RankedSetting, pooled: PooledVariance, rank: int) -> tuple[float, float] | None:
    """Student's interval, with the pooled variance, or the setting's if variances are not homogeneous."""
    count = len(row.values)
    variance, degrees = pooled.variance, pooled.degrees
    if not pooled.is_homogeneous or rank in pooled.outlying:
        variance, degrees = (row.sd or 0) ** 2, count - 1
    if not degrees:
        return None
    half = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2, degrees)) * math.sqrt(variance / count)
    return row.mean - half, row.mean + half


def _draws(settings: Mapping[int, Sequence[RunRecord]], metric: Metric) -> dict[int, Numbers]:
    """(samples, seeds) per setting: the metric on resampled test examples, the same samples for all runs.

    They are counted from the predictions, or read from the runs' bootstrap files; settings with a run that has neither
    are left out.
    """
    name = metric.key.removeprefix(TEST)
    runs = [run for group in settings.values() for run in group]
    tests = {run.path: run.outputs.tested for run in runs if run.outputs.tested is not None}
    columns: dict[Path, Numbers] = {}
    recounted = [run.path for run in runs if _can_recount(run, name, metric)]
    if recounted and (rates := resample_rates([tests[path] for path in recounted], name)):
        columns = dict(zip(recounted, rates[1].T, strict=True))
    else:
        tested = {path: test for path, test in tests.items() if metric.key in test.resampled}
        if len({test.order for test in tested.values()}) == 1:  # tests of different orders do not share samples
            columns = {path: test.resampled[metric.key] for path, test in tested.items()}
    return {
        index: np.stack([columns[run.path] for run in group], axis=1)
        for index, group in settings.items()
        if all(run.path in columns for run in group)
    }


def _can_recount(run: RunRecord, name: str, metric: Metric) -> bool:
    """Whether a rate counted from the predictions agrees with the saved one."""
    if not metric.key.startswith(TEST) or run.outputs.tested is None:
        return False
    rates = resample_rates([run.outputs.tested], name, samples=1)
    return rates is not None and abs(float(rates[0][0]) - run.results[metric.key]) < MAX_RECOUNT_ERROR

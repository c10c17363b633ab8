"""Ranks settings by a metric, and tests the difference of each from the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median_high, stdev
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from attnx.reports.significant_digits import digits_for
from attnx.reports.stats.multiple_comparisons import (
    EXAMPLES,
    SIGNIFICANCE_LEVEL,
    Comparisons,
    MeanDifference,
    Numbers,
    compare_draws_with_best,
    compare_with_best,
)
from attnx.reports.sweep.metrics import MAX_VALUE, Metric, Scale, choose_scale, run_value
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.settings import Setting

MIN_INTERVAL_WIDTH = 1e-9  # a narrower interval is of one number
NO_ERROR_VARIANCE = 2.0  # of the logarithm of a count of half an example, as of any count: 1 / count


class RankedSetting(NamedTuple):
    """A setting, its values of a metric by seed, and the 95 % interval of their mean, None if unknown.

    ``setting_index`` is that in the comparison's ``settings``. ``difference`` is from the best, adjusted for all pairs
    of settings; None for the best. Above zero is worse, whether higher or lower values are better. ``both_sources`` is
    its interval over both seeds and test examples.
    """

    setting_index: int
    setting: Setting
    values: dict[Any, float]
    interval: tuple[float, float] | None = None
    difference: MeanDifference | None = None
    both_sources: tuple[float, float] | None = None

    @property
    def runs(self) -> list[RunRecord]:
        """The runs that have a value."""
        return [run for run in self.setting.runs if run.seed in self.values]

    @property
    def seed_count(self) -> str:
        """How many seeds have a value, and of how many if some have none: ``2 of 3``."""
        total = self.setting.num_seeds
        return str(total) if len(self.values) == total else f"{len(self.values)} of {total}"

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.values.values())

    def on_scale(self, scale: Scale) -> list[float]:
        """Its values on the scale on which settings are compared."""
        return [float(value) for value in scale.apply([*self.values.values()])]

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds; None with one seed."""
        return stdev(self.values.values()) if len(self.values) > 1 else None


@dataclass
class Ranking:
    """Settings by a metric, best first by the mean on its scale; those without the metric have no row.

    ``is_sole_best`` says whether the first is better than all others, over seeds or else over examples, ``has_seeds``
    whether some setting varies over its seeds, so that differences are tested over seeds.
    """

    settings: Sequence[Setting]
    metric: Metric
    rows: list[RankedSetting]
    scale: Scale
    is_sole_best: bool = False
    has_seeds: bool = False

    @property
    def undecided(self) -> list[RankedSetting]:
        """Settings after the first that do not differ significantly from it, of those that are compared."""
        return [row for row in self.rows[1:] if row.difference and row.difference.p >= SIGNIFICANCE_LEVEL]

    @property
    def uncompared(self) -> list[RankedSetting]:
        """Settings after the first whose difference from it is not tested."""
        return [row for row in self.rows[1:] if row.difference is None]

    @property
    def has_winner(self) -> bool:
        """Whether the first setting is better than all others over seeds; it has two or more, and none failed."""
        is_sole_best = self.has_seeds and len(self.rows) > 1 and self.is_sole_best
        return is_sole_best and self.has_learned and not self.why_no_winner

    @property
    def has_learned(self) -> bool:
        """Whether some run is better than one whose outputs are all wrong; True if that is no value of the metric."""
        worst, sign = self.metric.worst, self.scale.sign
        return worst is None or any(sign * value < sign * worst for row in self.rows for value in row.values.values())

    @property
    def is_alike(self) -> bool:
        """Whether all runs have the same value, and on resampled test examples, too."""
        gaps = [row.difference for row in self.rows if row.difference]
        is_equal = len({value for row in self.rows for value in row.values.values()}) == 1
        return is_equal and all(gap.high - gap.low <= MIN_INTERVAL_WIDTH for gap in gaps)

    @property
    def why_no_winner(self) -> str:
        """Why the first setting could not win, whatever its lead; empty if it could."""
        setting = self.rows[0].setting
        total, still_open = setting.num_seeds, len(setting.open_seeds)
        if failed := total - still_open - len(self.rows[0].values):
            return f"{failed} of its {total} seeds failed, which is a failure of the setting"
        verb = "has" if still_open == 1 else "have"
        return f"{still_open} of its {total} seeds {verb} not finished" if still_open else ""

    @property
    def doubt(self) -> str:
        """Why the first setting did not win, beside the settings that may be as good; empty if it won."""
        if self.has_winner or not self.has_seeds:
            return ""
        return self.why_no_winner or ("" if self.undecided else "seeds vary too much to be sure")

    def scale_mean(self, row: RankedSetting) -> float:
        """The mean on the scale, which is the one that the row's interval is of."""
        return self.scale.mean([*row.values.values()])

    def numbers(self, row: RankedSetting) -> list[float | None]:
        """Mean and standard deviation, mean on the scale with its interval, and the difference with interval and p."""
        low, high = row.interval or (None, None)
        return [row.mean, row.sd, self.scale_mean(row), low, high, *(row.difference or ())[:4]]

    def name(self, row: RankedSetting) -> str:
        """A setting's name in double asterisks."""
        return f"**{row.setting.name}**"


def rank_settings(settings: Sequence[Setting], metric: Metric) -> Ranking:
    """Rank settings by a metric, and compare them with the best.

    Settings without it are left out. Where some vary over several seeds, those with one come last, and are not
    compared: one value says nothing about others.
    """
    rows = []
    for index, setting in enumerate(settings):
        values = {run.seed: run_value(run, metric.key) for run in setting.runs}
        usable = {seed: value for seed, value in values.items() if value is not None and abs(value) < MAX_VALUE}
        rows += [RankedSetting(index, setting, usable)] if usable else []
    examples = max((run.results.get("test_examples", 1.0) for setting in settings for run in setting.runs), default=1.0)
    scale = choose_scale(metric, [value for row in rows for value in row.values.values()], examples)
    has_seeds = any(len({*row.on_scale(scale)}) > 1 for row in rows)
    rows.sort(key=lambda row: (has_seeds and len(row.values) == 1, fmean(row.on_scale(scale))))
    ranking = Ranking(settings, metric, rows, scale, has_seeds=has_seeds)
    if has_seeds:
        groups = [row.on_scale(scale) for row in rows if len(row.values) > 1]
        may_win, least = ranking.has_learned and not ranking.why_no_winner, [scale.least_variance(g[0]) for g in groups]
        compared = compare_with_best(groups, may_win, least)
        ranking.rows = _rows_over_seeds(rows, groups, compared, scale, metric)
        ranking.is_sole_best = compared.is_sole_best and len(groups) > 1
    elif rows:
        differences = _compare_on_examples(rows, Scale(scale.sign), metric)
        ranking.is_sole_best = all(gap is not None and gap.p < SIGNIFICANCE_LEVEL for gap in differences[1:])
        ranking.rows = [row._replace(difference=gap) for row, gap in zip(rows, differences, strict=True)]
    means = [row.interval for row in ranking.rows if row.interval]
    intervals = means or [(row.difference.low, row.difference.high) for row in ranking.rows if row.difference]
    digits = [digits_for(low, high) for low, high in intervals if high - low > MIN_INTERVAL_WIDTH]
    if digits:  # those that half of the intervals support
        ranking.metric = metric._replace(digits=median_high(digits))
    return ranking


def _compare_on_examples(rows: Sequence[RankedSetting], scale: Scale, metric: Metric) -> list[MeanDifference | None]:
    """Differences from the best over test examples, with one seed each; None where that is not possible."""
    draws = _draws(rows, metric, scale)
    comparable = [index for index, row in enumerate(rows) if row.setting_index in draws]
    differences: list[MeanDifference | None] = [None] * len(rows)
    if comparable[:1] == [0] and len(comparable) > 1:
        columns = np.stack([draws[rows[index].setting_index] for index in comparable], axis=1)
        compared = compare_draws_with_best([fmean(rows[index].on_scale(scale)) for index in comparable], columns)
        for index, difference in zip(comparable, compared, strict=True):
            differences[index] = difference
    return differences


def _rows_over_seeds(
    rows: Sequence[RankedSetting],
    groups: Sequence[Sequence[float]],
    compared: Comparisons,
    scale: Scale,
    metric: Metric,
) -> list[RankedSetting]:
    """The rows with their intervals and differences; those behind the ``groups`` have one seed and none.

    ``both_sources`` adds the variance of the difference over bootstrap samples of the test to that over seeds.
    """
    result, best, draws = list(rows), fmean(groups[0]), _draws(rows, metric, scale)
    for place, (row, group) in enumerate(zip(rows, groups, strict=False)):
        mean, variance, degrees = fmean(group), compared.errors[place] ** 2, max(1.0, compared.degrees[place])
        half, value = _half_width(variance, 0.0, degrees), scale.mean([*row.values.values()])
        ends = (scale.invert(mean - half), scale.invert(mean + half))
        result[place] = row._replace(interval=(min(*ends, value), max(*ends, value)))  # without an error the value is 0
        if difference := compared.differences[place]:
            result[place] = result[place]._replace(difference=scale.difference(best, difference))
        if place and len(draws) == len(rows):
            variance, degrees = variance + compared.errors[0] ** 2, min(degrees, max(1.0, compared.degrees[0]))
            on_examples = float((draws[row.setting_index] - draws[rows[0].setting_index]).var(ddof=1))
            below, above = (  # on other examples the best may be worse, or this one
                _half_width(variance, on_examples + _unseen_variance(worse, scale), degrees)
                for worse in (groups[0], group)
            )
            gap = MeanDifference(mean - best, mean - best - below, mean - best + above, 1.0, EXAMPLES)
            _, low, high, *_ = scale.difference(best, gap)
            result[place] = result[place]._replace(both_sources=(low, high))
    return result


def _half_width(on_seeds: float, on_examples: float, degrees: float) -> float:
    """Half of a 95 % interval by two variances, of which the former has so many degrees of freedom.

    Source: Satterthwaite 1946, https://doi.org/10.2307/3002019
    """
    variance = on_seeds + on_examples
    degrees = degrees * (variance / on_seeds) ** 2 if on_seeds else math.inf
    return float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2, degrees)) * math.sqrt(variance)


def _unseen_variance(group: Sequence[float], scale: Scale) -> float:
    """Of the mean of a group, by the runs without an error, which have none in any sample of the test."""
    if scale.least is None:
        return 0.0
    return NO_ERROR_VARIANCE * float(np.mean(np.array(group) <= math.log(scale.least))) ** 2


def _draws(rows: Sequence[RankedSetting], metric: Metric, scale: Scale) -> dict[int, Numbers]:
    """(samples,) per setting: its mean on the scale on resampled test examples, the same samples for all runs.

    They are read from the runs' bootstrap files; settings with a run that has none are left out.
    """
    runs = [run for row in rows for run in row.runs]
    tests = {run.path: run.examples for run in runs if metric.key in run.examples.resampled}
    if len({test.order for test in tests.values()}) != 1:  # tests of different orders do not share samples
        return {}
    return {
        row.setting_index: scale.apply([tests[run.path].resampled[metric.key] for run in row.runs]).mean(axis=0)
        for row in rows
        if all(run.path in tests for run in row.runs)
    }

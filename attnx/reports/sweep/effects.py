"""Main effects of choices and interactions of two choices, from an analysis of variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnx.reports.stats.anova import FTest, InteractionTest, LevelMean, analyze
from attnx.reports.stats.mean_difference import MeanDifference
from attnx.reports.stats.multiple_comparisons import PooledVariance
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import ABSENT, Setting, key_part, short_keys

MAX_NUMBERS, QUANTILE_GROUPS = 8, 4  # a choice with more different numbers is grouped


class Level(NamedTuple):
    """One value of a choice.

    Attributes:
        value: as text.
        mean: of the metric; None if other choices always change along, so that it cannot be estimated.
        low: lower end of the mean's 95 % interval; None if the error is unknown.
        high: upper end.
        settings: number of settings with it.
        difference: from the best value; None for the best, and as above. Above zero is worse.
    """

    value: str
    mean: float | None
    low: float | None
    high: float | None
    settings: int
    difference: MeanDifference | None


class Effect(NamedTuple):
    """The main effect of a choice, or of choices that always change together: its levels and its F-test."""

    name: str
    levels: list[Level]
    test: FTest | None

    @property
    def range(self) -> float:
        """Between the best and the worst value."""
        means = [level.mean for level in self.levels if level.mean is not None]
        return max(means) - min(means) if means else 0.0


class Interaction(NamedTuple):
    """The interaction of two choices.

    Attributes:
        names: of the choices.
        test: its F-test.
        values: the pair of values with the largest deviation from the sum of their main effects; None if unknown.
        deviation: of this pair: its mean and 95 % interval, in the direction of the metric.
    """

    names: tuple[str, str]
    test: FTest
    values: tuple[str, str] | None
    deviation: tuple[float, float, float] | None


class Factor(NamedTuple):
    """A choice as a factor: its values as text, and the index of each setting's value."""

    name: str
    values: list[str]
    indices: tuple[int, ...]


def factors(keys: Sequence[str], settings: Sequence[Setting]) -> list[Factor]:
    """The varied choices as factors: a knob that some parts lack joins its part, choices that change together join."""
    columns = {key: [setting.values[index] for setting in settings] for index, key in enumerate(keys)}
    names = dict(zip(keys, short_keys(keys), strict=True))
    groups: dict[str, list[str]] = {}
    for key in keys:
        part = key_part(key)
        groups.setdefault(part if part in columns and ABSENT in columns[key] else key, []).append(key)
    candidates = []
    for group in groups.values():
        texts = [
            ", ".join(
                f"{names[key]}={values[key]}" if len(group) > 1 and "." in key else values[key]
                for key in group
                if values[key] != ABSENT
            )
            for values in ({key: columns[key][row] for key in group} for row in range(len(settings)))
        ]
        candidates.append(_factor(", ".join(names[key] for key in group), _group_numbers(texts)))
    return _join_equal([factor for factor in candidates if len(factor.values) > 1])


def _factor(name: str, texts: Sequence[str]) -> Factor:
    values = list(dict.fromkeys(texts))
    if all(map(_is_number, texts)):
        values.sort(key=float)
    return Factor(name, values, tuple(values.index(text) for text in texts))


def _group_numbers(texts: list[str]) -> list[str]:
    """Group many different numbers, as a search tries them, by quartile."""
    if len(set(texts)) <= MAX_NUMBERS or not all(map(_is_number, texts)):
        return texts
    numbers = [float(text) for text in texts]
    edges = np.quantile(numbers, np.linspace(0, 1, QUANTILE_GROUPS + 1))
    groups = np.searchsorted(edges[1:-1], numbers)
    return [f"{edges[group]:.3g} to {edges[group + 1]:.3g}" for group in groups]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _join_equal(candidates: Sequence[Factor]) -> list[Factor]:
    """Join factors whose values correspond one to one."""
    by_pattern: dict[tuple[int, ...], list[Factor]] = {}
    for factor in candidates:
        first: dict[int, int] = {}
        pattern = tuple(first.setdefault(index, len(first)) for index in factor.indices)
        by_pattern.setdefault(pattern, []).append(factor)
    return [equal[0] if len(equal) == 1 else _join(equal) for equal in by_pattern.values()]


def _join(equal: Sequence[Factor]) -> Factor:
    columns = zip(*([factor.values[index] for index in factor.indices] for factor in equal), strict=True)
    return _factor(", ".join(factor.name for factor in equal), [", ".join(texts) for texts in columns])


def effects(
    compared: Sequence[Factor], rows: Sequence[RankedSetting], pooled: PooledVariance, is_higher_better: bool
) -> tuple[list[Effect], list[Interaction]]:
    """Main effects, the largest first, and interactions, the most significant first.

    Args:
        compared: factors over all settings.
        rows: the settings with the metric.
        pooled: their variance over seeds.
        is_higher_better: of the metric.
    """
    sign = -1 if is_higher_better else 1
    values = np.array([sign * value for row in rows for value in row.values.values()])
    indices = [row.setting for row in rows for _ in row.values]
    columns = [np.array([factor.indices[index] for index in indices]) for factor in compared]
    analysis = analyze(columns, [len(factor.values) for factor in compared], values, pooled)
    main = []
    for factor, test, means in zip(compared, analysis.main, analysis.levels, strict=True):
        counts = [sum(factor.indices[row.setting] == level for row in rows) for level in range(len(factor.values))]
        levels = [_level(*level, sign) for level in zip(factor.values, counts, means, strict=True)]
        main.append(Effect(factor.name, levels, test))
    pairs = [_interaction(compared[a], compared[b], test, sign) for (a, b), test in analysis.interactions.items()]
    return sorted(main, key=lambda effect: -effect.range), sorted(pairs, key=lambda pair: pair.test.p)


def _interaction(first: Factor, second: Factor, result: InteractionTest, sign: int) -> Interaction:
    names = (first.name, second.name)
    if result.largest is None:
        return Interaction(names, result.test, None, None)
    (a, b), mean, low, high = result.largest
    low, high = sorted((sign * low, sign * high))
    return Interaction(names, result.test, (first.values[a], second.values[b]), (sign * mean, low, high))


def _level(value: str, settings: int, result: LevelMean, sign: int) -> Level:
    """A level's mean in the direction of the metric."""
    if result.mean is None:
        return Level(value, None, None, None, settings, None)
    if result.low is None or result.high is None:
        return Level(value, sign * result.mean, None, None, settings, None)
    low, high = sorted((sign * result.low, sign * result.high))
    return Level(value, sign * result.mean, low, high, settings, result.difference)

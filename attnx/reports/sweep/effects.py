"""Main effects of choices and interactions of two choices, from an analysis of variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnx.files.parse_number import is_number
from attnx.reports.stats.anova import FTest, analyze
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.settings import ABSENT, Setting, key_part, short_keys

MAX_NUMBERS, QUANTILE_GROUPS = 8, 4  # a choice with more different numbers is grouped


class Level(NamedTuple):
    """One value of a choice as text, its mean as in :class:`attnx.reports.stats.anova.LevelMean`, and its settings."""

    value: str
    mean: float | None
    low: float | None
    high: float | None
    difference: MeanDifference | None
    settings: int


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
    """The interaction of two choices and its F-test.

    ``values`` are the pair with the largest deviation from the sum of their main effects, ``deviation`` is its mean and
    95 % interval; None if unknown.
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
    by_pattern: dict[tuple[int, ...], dict[str, list[str]]] = {}
    for group in groups.values():
        parts = [{key: columns[key][row] for key in group} for row in range(len(settings))]
        texts = _group_numbers([_joint_text(values, names) for values in parts])
        codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        if len(codes) > 1:
            name = ", ".join(names[key] for key in group)
            by_pattern.setdefault(tuple(codes[text] for text in texts), {})[name] = texts
    return [
        _factor(", ".join(equal), [", ".join(texts) for texts in zip(*equal.values(), strict=True)])
        for equal in by_pattern.values()
    ]


def _joint_text(values: dict[str, str], names: dict[str, str]) -> str:
    """A part with its knobs, or one value."""
    return ", ".join(
        f"{names[key]}={value}" if len(values) > 1 and "." in key else value
        for key, value in values.items()
        if value != ABSENT
    )


def _factor(name: str, texts: Sequence[str]) -> Factor:
    values = list(dict.fromkeys(texts))
    if all(map(is_number, texts)):
        values.sort(key=float)
    return Factor(name, values, tuple(values.index(text) for text in texts))


def _group_numbers(texts: list[str]) -> list[str]:
    """Group many different numbers, as a search tries them, by quartile."""
    if len(set(texts)) <= MAX_NUMBERS or not all(map(is_number, texts)):
        return texts
    numbers = [float(text) for text in texts]
    edges = np.quantile(numbers, np.linspace(0, 1, QUANTILE_GROUPS + 1))
    groups = np.searchsorted(edges[1:-1], numbers)
    return [f"{edges[group]:.3g} to {edges[group + 1]:.3g}" for group in groups]


def effects(compared: Sequence[Factor], ranking: Ranking) -> tuple[list[Effect], list[Interaction]]:
    """Main effects of factors, the largest first, and interactions, the most significant first."""
    rows = ranking.rows
    values = np.array([value for row in rows for value in row.values.values()])
    indices = [row.setting for row in rows for _ in row.values]
    columns = [np.array([factor.indices[index] for index in indices]) for factor in compared]
    sizes = [len(factor.values) for factor in compared]
    analysis = analyze(columns, sizes, values, ranking.pooled, ranking.measure.is_higher_better)
    main = []
    for factor, test, means in zip(compared, analysis.main, analysis.levels, strict=True):
        counts = [sum(factor.indices[row.setting] == level for row in rows) for level in range(len(factor.values))]
        levels = [Level(value, *mean, count) for value, mean, count in zip(factor.values, means, counts, strict=True)]
        main.append(Effect(factor.name, levels, test))
    pairs = []
    for (a, b), (result, largest) in analysis.interactions.items():
        first, second = compared[a], compared[b]
        cell = largest and (first.values[largest.levels[0]], second.values[largest.levels[1]])
        deviation = largest and (largest.mean, largest.low, largest.high)
        pairs.append(Interaction((first.name, second.name), result, cell, deviation))
    return sorted(main, key=lambda effect: -effect.range), sorted(pairs, key=lambda pair: pair.test.p)

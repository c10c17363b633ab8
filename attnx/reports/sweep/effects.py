"""The effect of each choice, averaged over the rest, and of each two choices together: how large, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnx.reports.stats.anova import FTest, InteractionTest, LevelMean, analyze
from attnx.reports.stats.mean_difference import MeanDifference
from attnx.reports.stats.multiple_comparisons import Spread
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import ABSENT, Setting, part_of, short

FEW, QUARTERS = 8, 4  # a number with more values than that is looked at in groups


class Level(NamedTuple):
    """One value of a choice.

    Attributes:
        value: as it is written.
        mean: that it leads to; None where other choices always change along, so that it cannot be told.
        low: of the mean's 95 % interval; None where nothing tells how much is chance.
        high: of the mean's 95 % interval.
        settings: how many have it.
        behind: how far it is behind the best value; None of the best, and as above. Above zero is worse.
    """

    value: str
    mean: float | None
    low: float | None
    high: float | None
    settings: int
    behind: MeanDifference | None


class Effect(NamedTuple):
    """A choice, or choices that always change together: what each value leads to, and the test that they differ."""

    name: str
    levels: list[Level]
    test: FTest | None

    @property
    def spread(self) -> float:
        """Between the best and the worst value."""
        means = [level.mean for level in self.levels if level.mean is not None]
        return max(means) - min(means) if means else 0.0


class Interaction(NamedTuple):
    """Two choices that may depend on each other.

    Attributes:
        names: of the choices.
        test: that what one does depends on the other.
        values: of each choice, those that deviate most from what they add by themselves; None if that is unknown.
        deviation: of these: its mean and 95 % interval, as the measure goes.
    """

    names: tuple[str, str]
    test: FTest
    values: tuple[str, str] | None
    deviation: tuple[float, float, float] | None


class Factor(NamedTuple):
    """A choice as the fit sees it: of each setting the number of its value."""

    name: str
    values: list[str]
    held: tuple[int, ...]


def factors(keys: Sequence[str], settings: Sequence[Setting]) -> list[Factor]:
    """The varied choices: a knob that some parts lack goes with its part, what always changes together is one."""
    columns = {key: [setting.values[place] for setting in settings] for place, key in enumerate(keys)}
    names = dict(zip(keys, short(keys), strict=True))
    joined: dict[str, list[str]] = {}
    for key in keys:
        owner = part_of(key)
        joined.setdefault(owner if owner in columns and ABSENT in columns[key] else key, []).append(key)
    found: list[Factor] = []
    for held in joined.values():
        texts = [
            ", ".join(_spelled(names[key], columns[key][row], key, held) for key in held if columns[key][row] != ABSENT)
            for row in range(len(settings))
        ]
        found.append(_factor(", ".join(names[key] for key in held), _grouped(texts)))
    return _together([factor for factor in found if len(factor.values) > 1])


def _spelled(name: str, value: str, key: str, held: Sequence[str]) -> str:
    return f"{name}={value}" if len(held) > 1 and "." in key else value


def _factor(name: str, texts: Sequence[str]) -> Factor:
    values = sorted(dict.fromkeys(texts), key=_order) if all(map(_is_number, texts)) else list(dict.fromkeys(texts))
    return Factor(name, values, tuple(values.index(text) for text in texts))


def _grouped(texts: list[str]) -> list[str]:
    """Many different numbers, as a search tries them, in four groups of as many settings each."""
    if len(set(texts)) <= FEW or not all(map(_is_number, texts)):
        return texts
    edges = np.quantile([float(text) for text in texts], np.linspace(0, 1, QUARTERS + 1))
    groups = np.searchsorted(edges[1:-1], [float(text) for text in texts])
    return [f"{edges[group]:.3g} to {edges[group + 1]:.3g}" for group in groups]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _order(text: str) -> float:
    return float(text) if _is_number(text) else 0.0


def _together(found: list[Factor]) -> list[Factor]:
    """Choices of which each value of one goes with one value of the other are one."""
    by_pattern: dict[tuple[int, ...], list[Factor]] = {}
    for factor in found:
        first: dict[int, int] = {}
        by_pattern.setdefault(tuple(first.setdefault(value, len(first)) for value in factor.held), []).append(factor)
    return [same[0] if len(same) == 1 else _one(same) for same in by_pattern.values()]


def _one(same: Sequence[Factor]) -> Factor:
    rows = range(len(same[0].held))
    texts = [", ".join(factor.values[factor.held[row]] for factor in same) for row in rows]
    return _factor(", ".join(factor.name for factor in same), texts)


def effects(
    found: Sequence[Factor], rows: Sequence[RankedSetting], spread: Spread, more: bool
) -> tuple[list[Effect], list[Interaction]]:
    """What each choice does, the one that matters most first; and each pair, the surest first.

    Args:
        found: of all settings.
        rows: those that were measured.
        spread: of them over seeds.
        more: whether more of the measure is better.
    """
    sign = -1 if more else 1
    values = np.array([sign * value for row in rows for value in row.values.values()])
    places = [row.place for row in rows for _ in row.values]
    columns = [np.array([factor.held[place] for place in places]) for factor in found]
    analysis = analyze(columns, [len(factor.values) for factor in found], values, spread)
    main = []
    for factor, test, means in zip(found, analysis.main, analysis.levels, strict=True):
        counts = [sum(factor.held[row.place] == number for row in rows) for number in range(len(factor.values))]
        levels = [_level(*one, sign) for one in zip(factor.values, counts, means, strict=True)]
        main.append(Effect(factor.name, levels, test))
    pairs = [_interaction(found[a], found[b], one, sign) for (a, b), one in analysis.interactions.items()]
    return sorted(main, key=lambda effect: -effect.spread), sorted(pairs, key=lambda pair: pair.test.p)


def _interaction(one: Factor, other: Factor, found: InteractionTest, sign: int) -> Interaction:
    names = (one.name, other.name)
    if found.largest is None:
        return Interaction(names, found.test, None, None)
    (a, b), mean, low, high = found.largest
    low, high = sorted((sign * low, sign * high))
    return Interaction(names, found.test, (one.values[a], other.values[b]), (sign * mean, low, high))


def _level(value: str, settings: int, found: LevelMean, sign: int) -> Level:
    """A level's mean the way the measure goes."""
    if found.mean is None:
        return Level(value, None, None, None, settings, None)
    if found.low is None or found.high is None:
        return Level(value, sign * found.mean, None, None, settings, None)
    low, high = sorted((sign * found.low, sign * found.high))
    return Level(value, sign * found.mean, low, high, settings, found.behind)

"""Choices as factors of an analysis of variance: their main effects, their interactions, and what they show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attnx.config.view import key_part
from attnx.files.parse_number import count_phrase, is_number
from attnx.reports.significant_digits import p_text
from attnx.reports.stats.analysis_of_variance import SETTINGS, UNKNOWN, FTest, analyze
from attnx.reports.stats.multiple_comparisons import SEEDS, SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.settings import ABSENT, Setting, first_few, short_keys

MAX_NUMBERS, QUANTILE_GROUPS = 8, 4  # a choice with more different numbers is grouped
RANGE = " to "
ERRORS = {
    SETTINGS: "The error of intervals and tests is the variance of settings about the model of these effects: one is "
    "significant if it holds whatever else is chosen. Each setting counts once, with the mean of its seeds.",
    SEEDS: "The error of intervals and tests is the variance over seeds, since the model of these effects fits all "
    "settings.",
    UNKNOWN: "Nothing is tested: all settings have the same number, or the model of these effects fits all of them and "
    "some have one seed, which says nothing about others.",
}


class Factor(NamedTuple):
    """A choice as a factor: its values as text, and the index of the value of each setting that has all factors."""

    name: str
    values: list[str]
    indices: dict[int, int]


def factors(keys: Sequence[str], settings: Sequence[Setting], *, group_numbers: bool = False) -> list[Factor]:
    """The varied choices as factors: an option that some parts lack joins its part, choices that change together join.

    A setting without a part that most settings have, such as a baseline without attention, has no place among the
    values of its factor: it is left out of all factors. With ``group_numbers`` a choice with many different numbers, as
    a search tries them, is binned into quartiles.
    """
    parts = [index for index, key in enumerate(keys) if "." not in key]
    lacking = {part: {row for row, setting in enumerate(settings) if setting.values[part] == ABSENT} for part in parts}
    unusual = {row for rows in lacking.values() if 2 * len(rows) < len(settings) for row in rows}
    rows = [row for row in range(len(settings)) if row not in unusual]
    columns = {key: [settings[row].values[index] for row in rows] for index, key in enumerate(keys)}
    columns = {key: texts for key, texts in columns.items() if len(set(texts)) > 1}
    names = dict(zip(keys, short_keys(keys), strict=True))
    by_pattern: dict[tuple[int, ...], dict[str, list[str]]] = {}
    # A part with its options if some settings lack one of these, else a key by itself.
    groups: dict[str, list[str]] = {}
    for key, texts in columns.items():
        groups.setdefault(key_part(key) if key_part(key) in columns and ABSENT in texts else key, []).append(key)
    for group in groups.values():
        texts = []
        for cells in zip(*(columns[key] for key in group), strict=True):  # of a part with its options, or of one key
            present = [(key, value) for key, value in zip(group, cells, strict=True) if value != ABSENT]
            words = (f"{names[key]}={value}" if len(group) > 1 and "." in key else value for key, value in present)
            texts.append(", ".join(words) or ABSENT)
        texts = _group_numbers(texts) if group_numbers else texts
        codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        if len(codes) > 1:
            name = ", ".join(names[key] for key in group)
            by_pattern.setdefault(tuple(codes[text] for text in texts), {})[name] = texts
    result = []
    for equal in by_pattern.values():
        texts = [", ".join(words) for words in zip(*equal.values(), strict=True)]
        values = list(dict.fromkeys(texts))
        if all(is_number(text.partition(RANGE)[0]) for text in values):  # of a range of numbers the lower end
            values.sort(key=lambda text: float(text.partition(RANGE)[0]))
        indices = {row: values.index(text) for row, text in zip(rows, texts, strict=True)}
        result.append(Factor(", ".join(equal), values, indices))
    return result


def has_factors(setting: int, compared: Sequence[Factor]) -> bool:
    """Whether a setting, by its index, has a value of all factors."""
    return all(setting in factor.indices for factor in compared)


def repeated_settings(settings: Collection[int], compared: Sequence[Factor]) -> list[int]:
    """The settings, by their indices, whose every value is also a value of another of these settings.

    A value that a single setting has, or that always comes with another one, says what that setting has and not what
    the value does. All settings are returned if no two values of a factor would be left, as in a sweep of one choice.
    """
    repeated, count = list(settings), -1
    while len(repeated) != count:  # without some settings, values of others may be single ones
        count = len(repeated)
        counts = [Counter(factor.indices[setting] for setting in repeated) for factor in compared]
        repeated = [
            setting
            for setting in repeated
            if all(number[factor.indices[setting]] > 1 for number, factor in zip(counts, compared, strict=True))
        ]
    return repeated if restrict(compared, repeated) else list(settings)


def restrict(compared: Sequence[Factor], settings: Collection[int]) -> list[Factor]:
    """The factors of some settings, with the values that these have; those with one value are left out."""
    restricted = []
    for factor in compared:
        indices = {setting: factor.indices[setting] for setting in settings}
        levels = sorted(set(indices.values()))
        if len(levels) > 1:
            values = [factor.values[level] for level in levels]
            restricted.append(Factor(factor.name, values, {key: levels.index(level) for key, level in indices.items()}))
    return restricted


def _group_numbers(texts: list[str]) -> list[str]:
    """Group many different numbers, as a search tries them, by quartile."""
    if len(set(texts)) <= MAX_NUMBERS or not all(map(is_number, texts)):
        return texts
    numbers = [float(text) for text in texts]
    edges = np.quantile(numbers, np.linspace(0, 1, QUANTILE_GROUPS + 1))
    groups = np.searchsorted(edges[1:-1], numbers)
    labels = [f"{low:.3g}{RANGE}{high:.3g}" for low, high in pairwise(edges)]
    if len(set(labels)) < QUANTILE_GROUPS:
        labels = [f"{low:.10g}{RANGE}{high:.10g}" for low, high in pairwise(edges)]
    return [labels[group] for group in groups]


class Level(NamedTuple):
    """One value of a choice as text, with the fields of a ``LevelMean``, and how many settings have it."""

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
    """The interaction of two choices and its F-test."""

    names: tuple[str, str]
    test: FTest


class Effects(NamedTuple):
    """Main effects, the largest first, interactions, the most significant first, and sentences about both."""

    main: list[Effect]
    interactions: list[Interaction]
    summary: list[str]


def effects(compared: Sequence[Factor], ranking: Ranking) -> Effects:
    """The effects of factors on the settings that have all of them, and values that others have, too.

    There are none where nothing was learned.
    """
    usual = [row for row in ranking.rows if has_factors(row.setting_index, compared)]
    if not usual or not compared or not ranking.has_learned:
        return Effects([], [], [])
    repeated = repeated_settings([row.setting_index for row in usual], compared)
    rows = [row for row in usual if row.setting_index in repeated]
    compared = restrict(compared, repeated)
    indices = [[factor.indices[row.setting_index] for row in rows] for factor in compared]
    groups = [row.on_scale(ranking.scale) for row in rows]
    analysis = analyze([*map(np.array, indices)], [len(factor.values) for factor in compared], groups)
    main = []
    for place, (factor, means) in enumerate(zip(compared, analysis.levels, strict=True)):
        best, levels = min((level.mean for level in means if level.mean is not None), default=0.0), []
        for code, (value, level) in enumerate(zip(factor.values, means, strict=True)):  # in the units of the metric
            mean, low, high = (None if end is None else ranking.scale.invert(end) for end in level[:3])
            low, high = (high, low) if ranking.scale.sign < 0 else (low, high)
            difference = level.difference and ranking.scale.difference(best, level.difference)
            levels.append(Level(value, mean, low, high, difference, indices[place].count(code)))
        main.append(Effect(factor.name, levels, analysis.tests.get((place,))))
    names = [factor.name for factor in compared]
    pairs = [Interaction((names[t[0]], names[t[1]]), test) for t, test in analysis.tests.items() if len(t) == 2]
    pairs.sort(key=lambda pair: pair.test.p)
    without_part = [ranking.name(row) for row in ranking.rows if row not in usual]
    single = [ranking.name(row) for row in usual if row not in rows]
    summary = [
        *(ERRORS[analysis.error], *_significant(pairs, len(compared))),
        *_left_out(without_part, "want of a part that most settings have"),
        *_left_out(single, "having a value that no other setting has"),
    ]
    return Effects(sorted(main, key=lambda effect: -effect.range), pairs, summary)


def _significant(pairs: Sequence[Interaction], factors: int) -> Iterator[str]:
    """The interactions that remain significant after Holm's correction, and how many could not be tested."""
    correction = f" after Holm's correction for {len(pairs)}" if len(pairs) > 1 else ""
    names = [
        f"{' by '.join(pair.names)} ({p_text(pair.test.adjusted_p)})"
        for pair in pairs
        if pair.test.adjusted_p < SIGNIFICANCE_LEVEL
    ]
    if names:
        yield f"Significant interactions{correction}: {'; '.join(names)}."
    elif pairs:
        yield f"No interaction is significant{correction}."
    if untested := math.comb(factors, 2) - len(pairs):
        yield f"{count_phrase(untested, 'interaction')} of two choices cannot be tested with these settings."


def _left_out(names: Sequence[str], reason: str) -> Iterator[str]:
    if names:
        yield f"Left out of the effects, for {reason}: {first_few(names)}."

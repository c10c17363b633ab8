"""The choices in which settings differ, as factors of an analysis of variance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attnx.files.parse_number import is_number
from attnx.reports.sweep.settings import ABSENT, Setting, key_part, short_keys

MAX_NUMBERS, QUANTILE_GROUPS = 8, 4  # a choice with more different numbers is grouped
RANGE = " to "


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
    rows = _with_usual_parts(keys, settings)
    columns = {key: [settings[row].values[index] for row in rows] for index, key in enumerate(keys)}
    columns = {key: texts for key, texts in columns.items() if len(set(texts)) > 1}
    names = dict(zip(keys, short_keys(keys), strict=True))
    by_pattern: dict[tuple[int, ...], dict[str, list[str]]] = {}
    for group in _groups(columns):
        parts = [{key: columns[key][index] for key in group} for index in range(len(rows))]
        texts = [_joint_text(values, names) for values in parts]
        texts = _group_numbers(texts) if group_numbers else texts
        codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        if len(codes) > 1:
            name = ", ".join(names[key] for key in group)
            by_pattern.setdefault(tuple(codes[text] for text in texts), {})[name] = texts
    return [
        _factor(", ".join(equal), rows, [", ".join(texts) for texts in zip(*equal.values(), strict=True)])
        for equal in by_pattern.values()
    ]


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


def _with_usual_parts(keys: Sequence[str], settings: Sequence[Setting]) -> list[int]:
    """The indices of settings that lack no part that most settings have."""
    parts = [index for index, key in enumerate(keys) if "." not in key]
    lacking = {part: {row for row, setting in enumerate(settings) if setting.values[part] == ABSENT} for part in parts}
    left_out = {row for rows in lacking.values() if 2 * len(rows) < len(settings) for row in rows}
    return [row for row in range(len(settings)) if row not in left_out]


def _groups(columns: Mapping[str, Sequence[str]]) -> Iterable[list[str]]:
    """The keys of each factor: a part with its options if some settings lack one of these, else a key by itself."""
    groups: dict[str, list[str]] = {}
    for key, texts in columns.items():
        part = key_part(key)
        groups.setdefault(part if part in columns and ABSENT in texts else key, []).append(key)
    return groups.values()


def _joint_text(values: dict[str, str], names: dict[str, str]) -> str:
    """A part with its options, or one value; a dash if there is none."""
    present = {key: value for key, value in values.items() if value != ABSENT}
    texts = (f"{names[key]}={value}" if len(values) > 1 and "." in key else value for key, value in present.items())
    return ", ".join(texts) or ABSENT


def _factor(name: str, rows: Sequence[int], texts: Sequence[str]) -> Factor:
    values = list(dict.fromkeys(texts))
    if all(map(is_number, map(_first_number, values))):
        values.sort(key=lambda value: float(_first_number(value)))
    return Factor(name, values, {row: values.index(text) for row, text in zip(rows, texts, strict=True)})


def _first_number(text: str) -> str:
    """The lower end of a range of numbers; any other text as it is."""
    return text.partition(RANGE)[0]


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

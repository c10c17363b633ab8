"""The effect of each choice, averaged over the rest: what each of its values leads to, whatever else is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import variance
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.reports.seeds import student_quantile
from attnx.reports.sweep.ranking import Ranked
from attnx.reports.sweep.settings import ABSENT, Setting, part_of, short

FEW, QUARTERS = 8, 4  # a number with more values than that is looked at in groups
TINY = 1e-9


class Level(NamedTuple):
    """One value of a choice: the mean it leads to, with a 95 % interval, and how many settings have it.

    ``mean`` is None where other choices always change along, so that no mean can be told; ``low`` and ``high`` are None
    where nothing tells how much is chance.
    """

    value: str
    mean: float | None
    low: float | None
    high: float | None
    settings: int


class Effect(NamedTuple):
    """A choice, or choices that always change together, and what each of its values leads to."""

    name: str
    levels: list[Level]

    @property
    def spread(self) -> float:
        """Between the best and the worst value."""
        means = [level.mean for level in self.levels if level.mean is not None]
        return max(means) - min(means) if means else 0.0


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


def effects(found: Sequence[Factor], rows: Sequence[Ranked]) -> list[Effect]:
    """Fit main effects to the settings' means by least squares; a level's mean is over all values of the others alike.

    On a full grid that is the plain mean of the settings with that value; where settings are missing it is what the
    others make of it. Intervals come from the spread over seeds, pooled; with one seed each, from what the fit leaves.

    Args:
        found: of all settings.
        rows: those that were measured.
    """
    means = np.array([row.mean for row in rows])
    columns = [np.array([factor.held[row.place] for row in rows]) for factor in found]
    coded = [_coded(column, len(factor.values)) for column, factor in zip(columns, found, strict=True)]
    design = np.column_stack([np.ones(len(rows)), *coded])
    solve = np.linalg.pinv(design)
    error, degrees = _noise(rows, means - design @ (solve @ means), design)
    reach = student_quantile(degrees) if degrees else math.inf
    told, start = [], 1
    for factor, column in zip(found, columns, strict=True):
        levels = []
        for number, value in enumerate(factor.values):
            asked = np.zeros(design.shape[1])
            asked[0], asked[start : start + len(factor.values) - 1] = 1, _code(number, len(factor.values))
            shares = asked @ solve
            known = np.abs(shares @ design - asked).max() < TINY and (column == number).any()
            mean = float(shares @ means) if known else None
            half = reach * math.sqrt(float(shares**2 @ error)) if degrees else None
            low, high = (mean - half, mean + half) if mean is not None and half is not None else (None, None)
            levels.append(Level(value, mean, low, high, int((column == number).sum())))
        told.append(Effect(factor.name, levels))
        start += len(factor.values) - 1
    return sorted(told, key=lambda effect: -effect.spread)


def _code(number: int, values: int) -> NDArray[np.float64]:
    """A value as the fit sees it; the values of a choice sum to nothing."""
    return np.full(values - 1, -1.0) if number == values - 1 else np.eye(values - 1)[number]


def _coded(column: NDArray[np.int_], values: int) -> NDArray[np.float64]:
    return np.stack([_code(int(number), values) for number in column])


def _noise(
    rows: Sequence[Ranked], left: NDArray[np.float64], design: NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """The variance of each setting's mean, and the degrees of freedom it was found with."""
    counts = np.array([len(row.values) for row in rows])
    degrees = int((counts - 1).sum())
    if degrees:
        pooled = sum(variance(row.values.values()) * (len(row.values) - 1) for row in rows if len(row.values) > 1)
        return pooled / degrees / counts, degrees
    degrees = len(rows) - int(np.linalg.matrix_rank(design))
    return np.full(len(rows), float(left @ left) / max(degrees, 1)), degrees

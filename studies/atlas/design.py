"""The design of the study: the settings that each task is trained with, from design.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from studies.job import Job, Setting, plan_job

Factors = Mapping[str, Sequence[str]]
Combination = tuple[int, ...]
"""A level of each factor, by its index."""
TIE_BREAK = 1e-3  # weight of how often a pair has met against how often it still must


class Task(NamedTuple):
    """A task of the study."""

    name: str  # in the design
    data: str  # what kind of data it has, in a few words
    about: str  # what they are
    config: Mapping[str, Any]  # its configuration
    # the baseline, settings that differ from the first levels in one factor, and values trained alone
    changes: list[Setting]
    combinations: list[Setting]  # the further settings of all seeds
    rates: list[Setting]  # settings of the first seed only
    is_confirmed: bool  # then the confirmation says what to take

    @property
    def default(self) -> Setting:
        """The first levels of all factors."""
        return next(setting for setting in self.changes if len(setting) > 1)

    @property
    def settings(self) -> list[Setting]:
        """Those of all seeds."""
        return [*self.changes, *self.combinations]

    def job(self, setting: Setting, seed: int) -> Job:
        """The run of a setting with a seed."""
        return plan_job(self.name, self.config, setting, seed)


def read_design(path: Path) -> tuple[dict[str, Task], list[int]]:
    """The tasks by name, and the seeds; the same file always gives the same settings."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: _task(name, task, content) for name, task in content["tasks"].items()}, content["seeds"]


def jobs(tasks: Mapping[str, Task], seeds: Sequence[int]) -> Iterator[Job]:
    """All runs: single changes first, then further rates, and the rest, each seed by seed.

    Any beginning is a smaller study.
    """
    for seed in seeds:
        for task in tasks.values():
            yield from (task.job(setting, seed) for setting in task.changes)
    for task in tasks.values():
        yield from (task.job(setting, seeds[0]) for setting in task.rates)
    for seed in seeds:
        for task in tasks.values():
            yield from (task.job(setting, seed) for setting in task.combinations)


def _task(name: str, task: Mapping[str, Any], content: Mapping[str, Any]) -> Task:
    factors = {**content["factors"], **task.get("factors", {})}

    def settings(combinations: Iterable[Combination]) -> list[Setting]:
        return [_setting(factors, combination, content["replace"]) for combination in combinations]

    shared = balanced_fraction(content["factors"], [], content["shared"], 0)[: task.get("shared")]
    start = dict.fromkeys([*grid(factors, task.get("grid", [])), *shared])
    chosen = balanced_fraction(factors, list(start), task.get("fraction", 0), task.get("min_pairs", 0))
    baseline = task.get("baseline", content["baseline"])
    changes = settings(combination for factor in factors for combination in grid(factors, [factor]))
    alone = [_setting_alone(factors, text) for text in task.get("alone", [])]
    changes = list(dict.fromkeys([*([(baseline,)] if baseline else []), *changes, *alone]))
    rates = task.get("rates", [])
    return Task(
        name,
        task["data"],
        task["about"],
        task["config"],
        changes,
        [setting for setting in settings(chosen) if setting not in changes],
        [(*setting, f"optimizer.lr={rate}") for rate in rates for setting in settings(grid(factors, ["scorer"]))],
        task.get("confirmed", False),
    )


def grid(factors: Factors, varied: Sequence[str]) -> list[Combination]:
    """All combinations of the varied factors; the others have their first level."""
    if not varied:
        return []
    return list(product(*(range(len(levels) if name in varied else 1) for name, levels in factors.items())))


def balanced_fraction(factors: Factors, start: Sequence[Combination], size: int, min_pairs: int) -> list[Combination]:
    """Extend ``start`` by ``size`` combinations or more, until each pair of levels has met ``min_pairs`` times.

    Greedy: the next combination is the one whose pairs lack most, and of several the one whose pairs have met least.
    """
    sizes = [len(levels) for levels in factors.values()]
    everything = np.array(list(product(*map(range, sizes))))
    pairs = _pairs(everything, sizes)
    rows = {tuple(combination): row for row, combination in enumerate(everything.tolist())}
    chosen = [rows[combination] for combination in start]
    counts = np.bincount(pairs[chosen].ravel(), minlength=pairs.max() + 1)
    while len(chosen) < len(start) + size or counts.min() < min_pairs:
        value = np.maximum(min_pairs - counts, 0) - TIE_BREAK * counts
        gain = value[pairs].sum(axis=1)
        gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
        counts[pairs[chosen[-1]]] += 1
    return [tuple(combination) for combination in everything[chosen].tolist()]


def _pairs(combinations_: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The index of each pair of levels (combinations, pairs of factors); no two pairs of factors share one."""
    columns, start = [], 0
    for a, b in combinations(range(len(sizes)), 2):
        columns.append(start + combinations_[:, a] * sizes[b] + combinations_[:, b])
        start += sizes[a] * sizes[b]
    return np.stack(columns, axis=1)


def _setting_alone(factors: Factors, text: str) -> Setting:
    """The overrides of ``text``, and the first levels of the factors that it does not name."""
    named = {word.partition("=")[0] for word in text.split()}
    first = [word for levels in factors.values() for word in levels[0].split() if word.partition("=")[0] not in named]
    return (*first, *text.split())


def _setting(factors: Factors, combination: Combination, replace: Mapping[str, Mapping[str, str]]) -> Setting:
    """The overrides of a combination, with words replaced where a level demands it."""
    levels = [levels[index] for levels, index in zip(factors.values(), combination, strict=True)]
    text = " ".join(levels)
    for level, words in replace.items():
        if level in levels:
            for old, new in words.items():
                text = text.replace(old, new)
    return tuple(text.split())

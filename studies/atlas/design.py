"""The design of the study: the settings that each task is trained with, from design.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from studies.job import Job, Setting

Factors = Mapping[str, Sequence[str]]
Combination = tuple[int, ...]
"""A level of each factor, by its index."""
TIE_BREAK = 1e-3  # weight of how often a pair has met against how often it still must


class Task(NamedTuple):
    """A task of the study: its configuration, the settings of all seeds, and those of the first seed only.

    ``data`` says in a few words what its data are.
    """

    name: str
    data: str
    config: Mapping[str, Any]
    settings: list[Setting]
    settings_of_rates: list[Setting]


def read_design(path: Path) -> tuple[dict[str, Task], list[int]]:
    """The tasks by name, and the seeds; the same file always gives the same settings."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: _task(name, task, content) for name, task in content["tasks"].items()}, content["seeds"]


def jobs(tasks: Mapping[str, Task], seeds: Sequence[int]) -> Iterator[Job]:
    """All runs, seed by seed, so that any beginning of the study is a study of fewer seeds."""
    for seed in seeds:
        for task in tasks.values():
            yield from (Job(task.name, setting, seed) for setting in task.settings)
            if seed == seeds[0]:
                yield from (Job(task.name, setting, seed) for setting in task.settings_of_rates)


def _task(name: str, task: Mapping[str, Any], content: Mapping[str, Any]) -> Task:
    factors = {**content["factors"], **task.get("factors", {})}
    shared = balanced_fraction(content["factors"], [], content["shared"], 0) if task.get("shared", True) else []
    start = dict.fromkeys([*grid(factors, task.get("grid", [])), *shared])
    chosen = balanced_fraction(factors, list(start), task.get("fraction", 0), task.get("min_pairs", 0))
    settings = [_setting(factors, combination, content["replace"]) for combination in chosen]
    scorers = [_setting(factors, combination, content["replace"]) for combination in grid(factors, ["scorer"])]
    rates = [(*setting, f"optimizer.lr={rate}") for rate in task.get("rates", []) for setting in scorers]
    baseline = task.get("baseline", content["baseline"])
    alone = [_setting_alone(factors, text) for text in task.get("alone", [])]
    settings = [*([(baseline,)] if baseline else []), *settings, *alone]
    return Task(name, task["data"], task["config"], list(dict.fromkeys(settings)), rates)


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

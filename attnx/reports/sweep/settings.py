"""What varies between runs, and which runs differ by their seed alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from attnx.config.view import value_text
from attnx.reports.sweep.load_runs import DATA, RunRecord

FIRST = ("task", "recipe", "model", "attention", "scorer", "scope", "query", "normalizer", "encoder", "decoder")
ABSENT = "\N{EN DASH}"


class Setting(NamedTuple):
    """Runs that differ by their seed alone.

    Attributes:
        name: what makes it differ from the other settings, in words.
        values: of the varied choices, as text; a dash where a part has no such knob.
        runs: by seed, in the order of seeds.
    """

    name: str
    values: tuple[str, ...]
    runs: list[RunRecord]


def varied(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The choices in which runs differ; a part's knob only if runs with that same part differ in it.

    >>> varied([{"scorer": "mlp", "scorer.depth": 1}, {"scorer": "dot"}])
    ['scorer']
    >>> varied([{"scorer": "mlp", "scorer.depth": 1}, {"scorer": "mlp", "scorer.depth": 2}, {"scorer": "dot"}])
    ['scorer', 'scorer.depth']
    """
    keys = dict.fromkeys(key for run in runs for key in run)
    found = [key for key in keys if _differs(key, runs)]
    if DATA in found and _follows(DATA, [key for key in found if part_of(key) == "task"], runs):
        found.remove(DATA)
    return sorted(found, key=lambda key: FIRST.index(part_of(key)) if part_of(key) in FIRST else len(FIRST))


def _differs(key: str, runs: Sequence[Mapping[str, Any]]) -> bool:
    if key == DATA or "." in key:
        values: dict[str, set[str]] = {}
        for run in runs:
            if key in run:
                values.setdefault(value_text(run.get(part_of(key))) if key != DATA else "", set()).add(
                    value_text(run[key])
                )
        return any(len(held) > 1 for held in values.values())
    return len({value_text(run.get(key)) for run in runs}) > 1


def _follows(key: str, others: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs that agree in the others agree in a key, too, so that it tells nothing more."""
    held: dict[tuple[str, ...], set[str]] = {}
    for run in runs:
        held.setdefault(tuple(value_text(run.get(other)) for other in others), set()).add(value_text(run.get(key)))
    return all(len(values) == 1 for values in held.values())


def part_of(key: str) -> str:
    """The part to which a knob belongs: ``scorer`` of ``scorer.depth``."""
    return key.partition(".")[0]


def short(keys: Sequence[str]) -> list[str]:
    """Choices by the last part of their name, where that tells them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return [one if last.count(one) == 1 else key for one, key in zip(last, keys, strict=True)]


def settings(runs: Iterable[RunRecord], keys: Sequence[str]) -> list[Setting]:
    """Put runs that differ by their seed alone together; of two that do not even differ by it, the later counts."""
    by_values: dict[tuple[str, ...], dict[Any, RunRecord]] = {}
    for run in sorted(runs, key=lambda run: run.created):
        values = tuple(value_text(run.choices[key]) if key in run.choices else ABSENT for key in keys)
        by_values.setdefault(values, {})[run.seed] = run
    return [Setting(_name(keys, values), values, _in_order(held)) for values, held in by_values.items()]


def _in_order(by_seed: Mapping[Any, RunRecord]) -> list[RunRecord]:
    return [by_seed[seed] for seed in sorted(by_seed, key=lambda seed: (seed is None, seed))]


def _name(keys: Sequence[str], values: Sequence[str]) -> str:
    """Parts by their names, knobs with theirs.

    >>> _name(["scorer", "scorer.depth", "optimizer.lr"], ["mlp", "2", "0.01"])
    'mlp, depth=2, lr=0.01'
    """
    told = [
        value if "." not in key and not _plain(value) else f"{name}={value}"
        for key, name, value in zip(keys, short(keys), values, strict=True)
        if value != ABSENT
    ]
    return ", ".join(told) or "as asked"


def _plain(value: str) -> bool:
    """Whether a value does not speak for itself."""
    return value in ("null", "true", "false", "on", "none") or not value[:1].isalpha()

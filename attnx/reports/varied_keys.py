"""The choices in which runs differ, which tables, comparisons and reports of several runs show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnx.config.view import choice_text, value_text

DATA = "training data"  # the choice that runs with different training data differ in
KEY_ORDER = ("task", "recipe", "model", "attention", "scorer", "scope", "query", "normalizer", "encoder", "decoder")


def varied_keys(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The choices in which runs differ; a part's option only if runs with that part differ in it. None is a value, too.

    >>> varied_keys([{"scorer": "mlp", "scorer.depth": 1}, {"scorer": "dot"}])
    ['scorer']
    >>> varied_keys([{"scorer": "mlp", "scorer.depth": 1}, {"scorer": "mlp", "scorer.depth": 2}, {"scorer": "dot"}])
    ['scorer', 'scorer.depth']
    """
    texts = [{key: choice_text(value) for key, value in run.items()} for run in runs]
    keys = [key for key in dict.fromkeys(key for run in texts for key in run) if _differs(key, texts)]
    # Data that follow from the task's settings are no choice.
    tasks = [key for key in keys if key_part(key) == "task"]
    settings_of_data = {(*map(run.get, tasks), run.get(DATA)) for run in texts}
    if DATA in keys and len(settings_of_data) == len({values[:-1] for values in settings_of_data}):
        keys.remove(DATA)
    return sorted(keys, key=lambda key: ((*KEY_ORDER, key_part(key)).index(key_part(key)), "." in key))


def _differs(key: str, runs: Sequence[Mapping[str, str]]) -> bool:
    if key != DATA and "." not in key:
        return len({run.get(key, value_text(None)) for run in runs}) > 1
    values: dict[str | None, set[str]] = {}
    for run in runs:
        if key in run:
            values.setdefault(None if key == DATA else run.get(key_part(key)), set()).add(run[key])
    return any(len(texts) > 1 for texts in values.values())


def key_part(key: str) -> str:
    """The part that an option belongs to: ``scorer`` for ``scorer.depth``."""
    return key.partition(".")[0]

"""Rules for an exported runner: how to tokenize a line, join symbols, and search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Rules = dict[str, dict[str, Any]]

WORDS: dict[str, Any] = {"kind": "words"}
# Other searches than a beam are exported as greedy.
GREEDY: dict[str, Any] = {
    "beam_size": 1,
    "nbest": 1,
    "length_penalty": "none",
    "length_penalty_alpha": 0.0,
    "coverage_penalty": 0.0,
}
LIMITS = ("max_length_ratio", "max_length_extra", "min_length", "no_repeat_ngram_size")
EXPORTED_SEARCHES = ("greedy", "beam")


def text_rules(task: Mapping[str, Any], columns: Sequence[str] = ()) -> Rules:
    """Return the rules ``cut`` and ``join`` of a task; of an unknown task, words separated by spaces.

    Args:
        task: the task's configuration.
        columns: names of the source's features, if any.
    """
    rules = TASKS.get(task["name"], _words)(task)
    return {**rules, "cut": {**rules["cut"], "columns": list(columns)}} if rules["cut"]["kind"] == "matrix" else rules


def search_rules(search: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search as complete settings of a beam."""
    beam = {knob: search[knob] for knob in GREEDY} if search["name"] == "beam" else GREEDY
    return {**beam, **{knob: search[knob] for knob in LIMITS}}


def _words(_task: Mapping[str, Any]) -> Rules:
    return {"cut": WORDS, "join": WORDS}


def _g2p(task: Mapping[str, Any]) -> Rules:
    return {"cut": {"kind": "characters", "form": task["graphemes"], "tag_token": task["tag_token"]}, "join": WORDS}


def _sequences(task: Mapping[str, Any]) -> Rules:
    cut = _matrix(task) if task["source"] == "features" else {"kind": task["source"]}
    return {"cut": cut, "join": {"kind": task["target"]}}


def _translation(task: Mapping[str, Any]) -> Rules:
    return {"cut": _pieces(task, "source"), "join": _pieces(task, "source" if task["shared_vocabulary"] else "target")}


def _language_model(task: Mapping[str, Any]) -> Rules:
    return {"cut": _pieces(task, "source"), "join": _pieces(task, "source")}


def _qa(_task: Mapping[str, Any]) -> Rules:
    return {"cut": {"kind": "story"}, "join": WORDS}


def _pointing(task: Mapping[str, Any]) -> Rules:
    return {"cut": _matrix(task), "join": WORDS}


def _matrix(task: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "matrix", "step_names": task.get("step_names")}


def _pieces(task: Mapping[str, Any], side: str) -> dict[str, Any]:
    normalization = {knob: task[knob] for knob in ("lower", "unicode_form")}
    return {"kind": "pieces", "tokenizer": task["tokenizer"], "file": f"{side}.tokenizer", **normalization}


TASKS: dict[str, Callable[[Mapping[str, Any]], Rules]] = {
    "g2p": _g2p,
    "sequences": _sequences,
    "translation": _translation,
    "language_model": _language_model,
    "qa": _qa,
    "pointing": _pointing,
}

"""Rules for an exported runner: how to tokenize a line, join symbols, and search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnx.data.readers.babi import Babi
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.metrics.pointing import MAX_POINTS

WORDS: dict[str, Any] = {"kind": "words"}
# Other searches than a beam are exported as greedy.
GREEDY: dict[str, Any] = {
    "name": "greedy",
    "beam_size": 1,
    "nbest": 1,
    "length_penalty": "none",
    "length_penalty_alpha": 0.0,
    "coverage_penalty": 0.0,
}
LIMITS = ("max_length_ratio", "max_length_extra", "min_length", "no_repeat_ngram_size")
EXPORTED_SEARCHES = ("greedy", "beam")
EXPORTED_TOKENIZERS = ("bpe", "bytes", "character", "unigram", "word", "wordpiece")


def text_rules(task: Mapping[str, Any], columns: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The rules ``cut`` and ``join`` of a task; of an unknown task, words separated by spaces.

    Args:
        task: the task's configuration.
        columns: names of the source's features, if any.

    Raises:
        UserError: the runner lacks the task's tokenizer.
    """
    matrix = {"kind": "matrix", "step_names": task.get("step_names"), "columns": list(columns)}
    cut = join = WORDS
    match task["name"]:
        case "g2p":
            cut = {"kind": "characters", "form": task["graphemes"], "tag_token": task["tag_token"]}
        case "sequences":
            cut, join = matrix if task["source"] == "features" else {"kind": task["source"]}, {"kind": task["target"]}
        case "translation":
            cut, join = _pieces(task, "source"), _pieces(task, "source" if task["shared_vocabulary"] else "target")
        case "language_model":
            cut = join = _pieces(task, "source")
        case "qa":
            cut = {"kind": "story", "sentences": _sentences_read(task)}
        case "classification":
            cut = {"kind": "sentences", "lower": task["lower"], "texts": task["texts"]}
        case "pointing":
            cut = {**matrix, "most": MAX_POINTS, "distinct": task["problem"] != "sorting"}
    return {"cut": cut, "join": join}


def search_rules(search: Mapping[str, Any]) -> dict[str, Any]:
    """A search as complete settings of a beam; one that is not exported is greedy."""
    search = search if search["name"] in EXPORTED_SEARCHES else choose_decoding(search, "greedy")
    beam = {knob: search[knob] for knob in GREEDY} if search["name"] == "beam" else GREEDY
    return {**beam, **{knob: search[knob] for knob in LIMITS}}


def _sentences_read(task: Mapping[str, Any]) -> dict[str, int]:
    """How many of the last sentences of a story are read, by its tag; empty for the world model, which reads all."""
    if task["data"] != "babi":
        return {}
    stories = Babi("", task["tasks"] or [1], task["sentences"])
    limits = {tag: stories.limit(tag) for tag in stories.tags}
    return limits if len(limits) > 1 else {"": limits[stories.tags[0]]}


def _pieces(task: Mapping[str, Any], side: str) -> dict[str, Any]:
    if task["tokenizer"] not in EXPORTED_TOKENIZERS:
        raise UserError(f"task.tokenizer={task['tokenizer']}: the tokenizer of a plug-in cannot be exported")
    normalization = {knob: task[knob] for knob in ("lower", "unicode_form")}
    return {"kind": "pieces", "tokenizer": task["tokenizer"], "file": f"{side}.tokenizer", **normalization}

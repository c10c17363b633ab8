"""Flattens configurations to dotted keys, compares them, and writes them as text, alike wherever they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

ABSENT = "nothing"
MAX_SHOWN = 6  # more differences in a message would hide the first
WORDS = {None: "null", True: "true", False: "false"}
DATA = "training data"  # the choice that runs with different training data differ in
KEY_ORDER = ("task", "recipe", "model", "attention", "scorer", "scope", "query", "normalizer", "encoder", "decoder")


def dotted_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a configuration: a part is its name, a set of parts is their names, and options follow by dotted keys.

    >>> dotted_keys({"seed": 3, "scorer": {"name": "mlp", "depth": 2}})
    {'seed': 3, 'scorer': 'mlp', 'scorer.depth': 2}
    >>> dotted_keys({"query": {"token": {}, "language_tag": {"embedding_dim": 5}}})
    {'query': '[token,language_tag]', 'query.language_tag.embedding_dim': 5}
    """
    return {key: value for name, node in config.items() for key, value in _flatten(str(name), node)}


def _flatten(key: str, node: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(node, Mapping):
        yield key, node
    elif "name" in node:
        yield key, node["name"]
        for option, value in node.items():
            if option != "name":
                yield from _flatten(f"{key}.{option}", value)
    else:
        yield key, names_text(list(map(str, node)))
        for name, options in node.items():
            if isinstance(options, Mapping):
                yield from ((f"{key}.{name}.{option}", value) for option, value in options.items())
            elif options is not None:
                yield f"{key}.{name}", options


def names_text(names: list[str]) -> str:
    """The names of a set of parts, as the command line takes them: ``[token,language_tag]``, or ``token`` alone."""
    return names[0] if len(names) == 1 else f"[{','.join(names)}]"


def node_text(node: Any) -> str:
    """A part or a value with its options that are set, on one line."""
    return " ".join(filter(None, name_and_options(node)))


def name_and_options(node: Any) -> tuple[str, str]:
    """A part's name or a value, and the options that are set.

    >>> name_and_options({"name": "mlp", "depth": 2, "bias": True, "widths": None})
    ('mlp', 'depth=2 bias=true')
    """
    (_, value), *options = _flatten("", node)
    return value_text(value), " ".join(
        f"{key[1:]}={value_text(option)}" for key, option in options if option is not None
    )


def value_text(value: Any) -> str:
    """A value as it is written on a command line.

    >>> [value_text(value) for value in (None, True, 0.1, 1.0, ["a", {"name": "b", "c": 2}])]
    ['null', 'true', '0.1', '1.0', '[a,{name: b, c: 2}]']
    """
    match value:
        case None | bool():
            return WORDS[value]
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}"
        case Mapping():
            return f"{{{', '.join(f'{key}: {value_text(item)}' for key, item in value.items())}}}"
        case list() | tuple():
            return f"[{','.join(map(value_text, value))}]"
        case _:
            return str(value)


def choice_text(value: Any) -> str:
    """As :func:`value_text`, equal for equal numbers, however they are written.

    >>> [choice_text(value) for value in (0, 0.0, "0.0", 0.5, "one.0")]
    ['0', '0', '0', '0.5', 'one.0']
    """
    text = value_text(value)
    return text.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", text) else text


def differences_text(saved: Mapping[str, Any], requested: Mapping[str, Any]) -> str:
    """The keys in which two configurations differ, on one line, the first few written out; empty if there are none.

    >>> differences_text({"scorer": {"name": "mlp", "depth": 2}}, {"scorer": {"name": "mlp", "depth": 3}})
    'scorer.depth: saved 2, requested 3'
    """
    old, new = dotted_keys(saved), dotted_keys(requested)
    values = {key: (old.get(key, ABSENT), new.get(key, ABSENT)) for key in {**old, **new}}
    changes = [
        f"{key}: saved {value_text(first)}, requested {value_text(second)}"
        for key, (first, second) in values.items()
        if first != second
    ]
    hidden = len(changes) - MAX_SHOWN
    return "; ".join(changes[:MAX_SHOWN]) + (f"; and {hidden} more" if hidden > 0 else "")


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

"""What parts declare by literals, which are read from their source: which they must, which they may, and functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from attnx.registry.plugin_errors import name_plug_in
from attnx.registry.source_scan import Part

# The properties that parts of each kind declare as class attributes; they are read before anything is imported.
REQUIRED: dict[str, dict[str, type]] = {
    "scorer": {"requires_equal_dims": bool},
    "normalizer": {"is_distribution": bool},
    "query": {"needs": str},
    "bias": {"needs_query": bool},
    "output": {"needs_weights": bool},
    "kernel": {"scorers": tuple, "scopes": tuple, "normalizers": tuple, "priority": int},
}
# Those that parts of each kind may declare.
OPTIONAL: dict[str, dict[str, type]] = {
    "task": {"baselines": dict, "figures": dict, "pictures": dict, "metric_facts": dict},
}
WRITTEN = {
    bool: "True or False",
    str: "a word",
    int: "a whole number",
    tuple: "a tuple of names",
    dict: "a dictionary by name",
}


def undeclared(part: Part) -> str:
    """The message on a missing or wrong property, after ``file:line``; else empty."""
    for fact, type_ in REQUIRED.get(part.kind, {}).items():
        if not isinstance(part.properties.get(fact), type_):
            wrong = f"{fact} is {part.properties[fact]!r}" if fact in part.properties else f"it declares no {fact}"
            place = f"{part.file}:{part.lines.get(fact, part.line)}"
            return f"{place}: {wrong}; every {part.kind} declares it: write {fact} = {WRITTEN[type_]} in its class"
    for fact, type_ in OPTIONAL.get(part.kind, {}).items():
        if not isinstance(part.properties.get(fact, type_()), type_):
            place = f"{part.file}:{part.lines.get(fact, part.line)}"
            return f"{place}: {fact} is {part.properties[fact]!r}; write {fact} = {WRITTEN[type_]}"
    return ""


def import_declared(part: Part, path: str) -> Callable[..., Any]:
    """Import a function that a part declares by its dotted path, ``.config.resolve`` where it is beside the part.

    Raises:
        UserError: the part is a plug-in, and its module cannot be imported or has no such function.
    """
    module, _, function = path.rpartition(".")
    with nullcontext() if part.origin == "core" else name_plug_in(part):
        imported: Callable[..., Any] = getattr(importlib.import_module(module, part.package), function)
    return imported

"""What parts declare by literals, which are read from their source: which they must, which they may, and functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from attnx.registry.part import Part
from attnx.registry.plugin_errors import name_plug_in

# What parts of each kind must declare, as class attributes; it is read before anything is imported.
REQUIRED: dict[str, dict[str, type]] = {
    "scorer": {"requires_equal_dims": bool},
    "normalizer": {"is_distribution": bool},
    "query": {"needs": str},
    "bias": {"needs_query": bool},
    "output": {"needs_weights": bool},
    "kernel": {"scorers": tuple, "scopes": tuple, "normalizers": tuple, "priority": int},
}
# What they may declare.
OPTIONAL: dict[str, dict[str, type]] = {
    "task": {"baselines": dict, "figures": dict, "pictures": dict, "metric_facts": dict, "check_options": str},
}
WRITTEN = {
    bool: "True or False",
    str: "a word",
    int: "a whole number",
    tuple: "a tuple of names",
    dict: "a dictionary by name",
}


def undeclared(part: Part) -> str:
    """The message on a missing or wrong declaration, after ``file:line``; else empty."""
    declared = part.declarations
    for name, type_ in REQUIRED.get(part.kind, {}).items():
        if not isinstance(declared.get(name), type_):
            wrong = f"{name} is {declared[name]!r}" if name in declared else f"it declares no {name}"
            remedy = f"write {name} = {WRITTEN[type_]} in its class"
            return f"{_place(part, name)}: {wrong}; every {part.kind} declares it: {remedy}"
    for name, type_ in OPTIONAL.get(part.kind, {}).items():
        if not isinstance(declared.get(name, type_()), type_):
            return f"{_place(part, name)}: {name} is {declared[name]!r}; write {name} = {WRITTEN[type_]}"
    return ""


def _place(part: Part, name: str) -> str:
    return f"{part.file}:{part.lines.get(name, part.line)}"


def import_declared(part: Part, path: str) -> Callable[..., Any]:
    """Import a function that a part declares by its dotted path, ``.config.resolve`` where it is beside the part.

    Raises:
        UserError: the part is a plug-in, and its module cannot be imported or has no such function.
    """
    module, _, function = path.rpartition(".")
    with nullcontext() if part.origin == "core" else name_plug_in(part):
        imported: Callable[..., Any] = getattr(importlib.import_module(module, part.package), function)
    return imported

"""The properties that parts of each kind declare as class attributes; they are read before anything is imported."""

from __future__ import annotations

from attnx.registry.source_scan import Part

REQUIRED: dict[str, dict[str, type]] = {
    "scorer": {"requires_equal_dims": bool},
    "normalizer": {"is_distribution": bool},
    "query": {"needs": str},
    "output": {"copies": bool},
    "kernel": {"scorers": tuple, "scopes": tuple, "normalizers": tuple, "priority": int},
}
WRITTEN = {bool: "True or False", str: "a word", int: "a whole number", tuple: "a tuple of names"}


def undeclared(part: Part) -> str:
    """The message on a missing or wrong property, after ``file:line``; else empty."""
    for fact, type_ in REQUIRED.get(part.kind, {}).items():
        value = part.properties.get(fact)
        if not isinstance(value, type_):
            wrong = f"{fact} is {value!r}" if fact in part.properties else f"it declares no {fact}"
            place = f"{part.file}:{part.lines.get(fact, part.line)}"
            return f"{place}: {wrong}; every {part.kind} declares it: write {fact} = {WRITTEN[type_]} in its class"
    return ""


def advice(part: Part) -> str:
    """Where to read more about parts of this kind."""
    return f"all its laws: attnx check {part.kind}={part.name} (docs/add-a-part.md)"

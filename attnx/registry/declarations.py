"""What a part of each kind declares in the body of its class: the planner reads it before anything is imported."""

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
    """What is missing or wrong of a part's declarations, after ``file:line``; "" if nothing is."""
    for fact, type_ in REQUIRED.get(part.kind, {}).items():
        found = part.declares.get(fact)
        if not isinstance(found, type_):
            wrong = f"{fact} is {found!r}" if fact in part.declares else f"it declares no {fact}"
            place = f"{part.file}:{part.lines.get(fact, part.line)}"
            return f"{place}: {wrong}; every {part.kind} declares it: write {fact} = {WRITTEN[type_]} in its class"
    return ""


def advice(part: Part) -> str:
    """What tells more about how such a part is written."""
    return f"all its laws: attnx check {part.kind}={part.name} (docs/add-a-part.md)"

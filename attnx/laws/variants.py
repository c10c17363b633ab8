"""A part with each value of its knobs that are a choice."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnx.laws.candidate import Candidate


def variants(candidate: Candidate) -> list[Candidate]:
    """The candidate itself, and with each other value of a ``bool`` or ``Literal`` knob that it leaves open.

    A task is tried as it is: other values may mean other data.
    """
    others = (
        []
        if candidate.kind == "task"
        else [
            {knob.name: value}
            for knob in candidate.info.knobs
            if knob.name not in candidate.knobs
            for value in choices_of(knob.annotation)
            if value != knob.default
        ]
    )
    return [candidate, *(replace(candidate, knobs={**candidate.knobs, **other}) for other in others)]


def choices_of(annotation: str) -> Sequence[Any]:
    """The values of a ``bool`` or of a ``Literal``; none for any other type."""
    if annotation == "bool":
        return (False, True)
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if (
            isinstance(node, ast.Subscript)
            and ast.unparse(node.value) == "Literal"
            and not annotation.startswith("list")
        ):
            values = ast.literal_eval(node.slice)
            return values if isinstance(values, tuple) else (values,)
    return ()

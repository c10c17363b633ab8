"""The variants of a part: each value of every option that is a choice."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnx.laws.candidate import Candidate


def variants(candidate: Candidate) -> list[Candidate]:
    """The candidate, and a copy for each other value of a ``bool`` or ``Literal`` option that it does not set.

    A task has no variants: other values may need other data.
    """
    knobs = (
        []
        if candidate.kind == "task"
        else [
            {knob.name: value}
            for knob in candidate.info.knobs
            if knob.name not in candidate.knobs
            for value in knob_values(knob.annotation)
            if value != knob.default
        ]
    )
    return [candidate, *(replace(candidate, knobs={**candidate.knobs, **change}) for change in knobs)]


def knob_values(annotation: str) -> Sequence[Any]:
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

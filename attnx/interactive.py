"""Describes a part that was registered outside any part file, such as in a notebook cell."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from attnx.catalogue import Knob, Part
from attnx.errors import UserError
from attnx.knobs import Natural, Positive, Probability, Rate, Size, Time, parse_type

ALIASES = {
    "Size": Size,
    "Natural": Natural,
    "Positive": Positive,
    "Probability": Probability,
    "Rate": Rate,
    "Time": Time,
}


def describe(kind: str, name: str, item: Callable[..., Any]) -> Part:
    """Describe a part that was registered outside any part file, such as in a notebook cell."""
    knobs, supplied = [], []
    for parameter in inspect.signature(item).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue  # those of a class without a constructor of its own
        if parameter.default is inspect.Parameter.empty:
            supplied.append(parameter.name)
        else:
            text = _annotation(parameter.annotation)
            try:
                knob_type = parse_type(ast.parse(text, mode="eval").body)
            except (ValueError, SyntaxError) as error:
                raise UserError(f"the {kind} {name!r}, knob {parameter.name!r}: {error}") from None
            knobs.append(Knob(parameter.name, text, knob_type, parameter.default))
    declares = {key: value for key, value in vars(item).items() if isinstance(value, bool | int | str | tuple)}
    doc = inspect.cleandoc(item.__doc__ or "")
    place = Path(getattr(sys.modules.get(item.__module__), "__file__", None) or "<interactive>")
    return Part(
        kind,
        name,
        item.__module__,
        item.__qualname__,
        place,
        1,
        doc,
        tuple(knobs),
        tuple(supplied),
        declares,
        "interactive",
    )


def _annotation(annotation: Any) -> str:
    """Spell a type as its source would: a cell may or may not postpone the evaluation of its annotations."""
    alias = next((name for name, meaning in ALIASES.items() if annotation == meaning), None)
    if alias is not None:
        return alias
    if isinstance(annotation, str):
        return annotation
    if annotation is None or annotation is types.NoneType:
        return "None"
    inner = get_args(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return " | ".join(map(_annotation, inner))
    if get_origin(annotation) is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if inner:
        return f"{get_origin(annotation).__name__}[{', '.join(map(_annotation, inner))}]"
    return getattr(annotation, "__name__", str(annotation))

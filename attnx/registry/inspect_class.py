"""Describes a part that a script or a notebook registered, from its class."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from attnx.errors import UserError
from attnx.registry.param_types import (
    Natural,
    NonNegative,
    PartSpec,
    Positive,
    Probability,
    Rate,
    Size,
    Time,
    parse_type,
)
from attnx.registry.source_scan import BY_HAND, Knob, Part

ALIASES = {
    "Size": Size,
    "Natural": Natural,
    "Positive": Positive,
    "Probability": Probability,
    "Rate": Rate,
    "NonNegative": NonNegative,
    "Time": Time,
    "PartSpec": PartSpec,
}
LITERALS = (bool, int, float, str, bytes, tuple, list, dict, set, types.NoneType)


def describe_class(kind: str, name: str, item: Callable[..., Any]) -> Part:
    """Describe a class as :func:`attnx.registry.source_scan.read_parts` describes source.

    Raises:
        UserError: a knob has no type, one that no knob can have, or a default that is no literal of that type.
    """
    knobs, injected = [], []
    for parameter in _constructor(item):
        if parameter.default is inspect.Parameter.empty:
            injected.append(parameter.name)
        else:
            try:
                knobs.append(_knob(parameter))
            except (ValueError, SyntaxError) as error:
                raise UserError(f"the {kind} {name!r}, knob {parameter.name!r}: {error}") from None
    code = code_of_item(item)
    return Part(
        kind=kind,
        name=name,
        module=item.__module__,
        symbol=item.__qualname__,
        file=Path(code.co_filename if code else "<interactive>"),
        line=code.co_firstlineno if code else 1,
        doc=inspect.cleandoc(item.__doc__ or ""),
        knobs=tuple(knobs),
        injected_params=tuple(injected),
        properties=_declarations(item),
        origin=BY_HAND,
    )


def code_of_item(item: Callable[..., Any]) -> types.CodeType | None:
    """The code of a function, or of the first function that a class defines; None if there is none."""
    members = [item, *vars(item).values()]
    functions = (getattr(member, "__func__", getattr(member, "fget", member)) for member in members)
    return next((member.__code__ for member in functions if isinstance(member, types.FunctionType)), None)


def _constructor(item: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, or of a class that has a constructor of its own."""
    if isinstance(item, type) and "__init__" not in vars(item):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [member for member in inspect.signature(item).parameters.values() if member.kind not in variadic]


def _knob(parameter: inspect.Parameter) -> Knob:
    if parameter.annotation is inspect.Parameter.empty:
        raise ValueError(f"needs a type, such as {parameter.name}: int = ...")
    node = ast.parse(_annotation(parameter.annotation), mode="eval").body
    default, knob_type = parameter.default, parse_type(node)
    if not is_literal(default):
        raise ValueError("needs a literal default (a number, word, list or None)")
    default = list(default) if isinstance(default, tuple) else default
    if not knob_type.accepts(default):
        raise ValueError(f"its default {default!r} is not {knob_type.phrase}")
    return Knob(parameter.name, ast.unparse(node), knob_type, default)


def is_literal(value: Any) -> bool:
    """Whether a value can be written as a literal."""
    if not isinstance(value, LITERALS):
        return False
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _declarations(item: Callable[..., Any]) -> dict[str, Any]:
    return {name: value for name, value in vars(item).items() if not name.startswith("__") and is_literal(value)}


def _annotation(annotation: Any) -> str:
    """The source of a type; annotations may or may not be strings."""
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

"""Parts that a script or a notebook registered: described from the class, with its source to read."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from attnx.errors import UserError
from attnx.registry.option_types import ALIASES
from attnx.registry.part import BY_HAND, NO_LITERAL, Part, inherit, make_option


def describe_class(kind: str, name: str, item: Callable[..., Any]) -> Part:
    """Describe a class as :func:`attnx.registry.source_scan.read_parts` describes source.

    Raises:
        UserError: an option has no type, one that no option can have, or a default that is no literal of that type.
    """
    options, injected = [], []
    for parameter in _constructor(item):
        if parameter.default is inspect.Parameter.empty:
            injected.append(parameter.name)
            continue
        try:
            is_typed = parameter.annotation is not inspect.Parameter.empty
            annotation = ast.parse(_annotation(parameter.annotation), mode="eval").body if is_typed else None
            if not is_literal(parameter.default):
                raise ValueError(NO_LITERAL)
            options.append(make_option(parameter.name, annotation, parameter.default))
        except (ValueError, SyntaxError) as error:
            raise UserError(f"the {kind} {name!r}, option {parameter.name!r}: {error}") from None
    code, names = code_of_item(item), [option.name for option in options]
    declarations: dict[str, Any] = {}
    for base in reversed(_lineage(item)[1:]):
        checked = [member.name for member in _constructor(base) if member.default is not inspect.Parameter.empty]
        package = getattr(sys.modules.get(base.__module__), "__package__", None) or ""
        declarations |= inherit(_literals(base), names, checked, package)
    return Part(
        kind=kind,
        name=name,
        module=item.__module__,
        file=Path(code.co_filename if code else "<interactive>"),
        line=code.co_firstlineno if code else 1,
        doc=inspect.cleandoc(item.__doc__ or ""),
        options=tuple(options),
        injected_params=tuple(injected),
        declarations=declarations | _literals(item),
        origin=BY_HAND,
    )


def _literals(item: Callable[..., Any]) -> dict[str, Any]:
    """The public attributes of a class or function, not of its bases, that can be written as literals."""
    return {key: value for key, value in vars(item).items() if key[0] != "_" and is_literal(value)}


def code_of_item(item: Callable[..., Any]) -> types.CodeType | None:
    """The code of a function, or of the first function that a class defines; None if there is none."""
    members = [item, *vars(item).values()]
    functions = (getattr(member, "__func__", getattr(member, "fget", member)) for member in members)
    return next((member.__code__ for member in functions if isinstance(member, types.FunctionType)), None)


def _lineage(item: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A function, or a class and its bases that are in attnx or where it is defined."""
    if not isinstance(item, type):
        return [item]
    return [
        owner
        for owner in item.__mro__
        if owner.__module__.partition(".")[0] in ("attnx", item.__module__.partition(".")[0])
    ]


def _constructor(item: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, or of a class that has a constructor of its own or of its lineage."""
    if isinstance(item, type) and not any("__init__" in vars(owner) for owner in _lineage(item)):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [member for member in inspect.signature(item).parameters.values() if member.kind not in variadic]


def is_literal(value: Any) -> bool:
    """Whether a value can be written as a literal."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


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


def source_text(item: Callable[..., Any]) -> str:
    """The source of a class or function, to read; "" where Python does not know it, as after ``exec``.

    ``inspect.getsource`` finds no class of a notebook; the lines of its cell are found by its functions.
    """
    code = code_of_item(item)
    lines = linecache.getlines(code.co_filename) if code else []
    beginning = re.compile(rf"\s*(class|def) {item.__name__}\b")
    starts = [number for number, line in enumerate(lines) if beginning.match(line)]
    return textwrap.dedent("".join(inspect.getblock(lines[starts[-1] :]))) if starts else ""

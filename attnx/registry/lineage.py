"""What a class inherits: its bases in other files, in Python's order, and with them its constructor."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import NamedTuple

from attnx.registry.name_lookup import Definition, Source, look_up

NO_PARAMETER = ("ClassVar", "typing.ClassVar", "KW_ONLY", "dataclasses.KW_ONLY")  # annotations of no field


class Parameter(NamedTuple):
    """A parameter of a function or constructor, or a field of a dataclass."""

    name: str
    annotation: ast.expr | None
    default: ast.expr | None
    place: str


class Bases(NamedTuple):
    """The bases of a class that are in attnx or a plug-in, and why another one cannot be read; "" if all can."""

    classes: tuple[Definition, ...]
    problem: str


@functools.lru_cache(maxsize=8)  # for one part at a time: each keeps the tree of a module
def read_bases(definition: Definition) -> Bases:
    """Read the bases of a class from its file, and from those that it imports from."""
    (node, source), classes, problems = definition, [], []
    for base in node.bases if isinstance(node, ast.ClassDef) else ():
        try:
            meaning = look_up(base, source, node.lineno)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            continue
        if isinstance(meaning, Definition):
            classes.append(meaning)
        elif meaning is None or isinstance(meaning, Source):
            problems.append(
                f"{source.file}:{base.lineno}: the base {ast.unparse(base)} of {node.name} cannot be read, and with it "
                f"the options; import it by its name, or give {node.name} an __init__"
            )
    return Bases(tuple(classes), next(iter(problems), ""))


def lineage(definition: Definition) -> list[Definition]:
    """A class and the bases that can be read, in the order in which Python looks for attributes."""
    classes = [*read_bases(definition).classes]
    return [definition, *_merge([*map(lineage, classes), classes])]


def _merge(orders: list[list[Definition]]) -> Iterator[Definition]:
    """One order that agrees with all; with some of them where they contradict each other, as the import will say."""
    while orders := [order for order in orders if order]:
        later = {definition.place for order in orders for definition in order[1:]}
        first = next((order[0] for order in orders if order[0].place not in later), orders[0][0])
        yield first
        orders = [[definition for definition in order if definition.place != first.place] for order in orders]


def parameters(definition: Definition) -> list[Parameter]:
    """The parameters of a function, or of a class as Python finds its constructor: its own, or a base's.

    Raises:
        ValueError: a base cannot be read that may have the constructor; the message begins with ``file:line``.
    """
    for owner in lineage(definition):
        if (own := _constructor(owner)) is not None:
            return own
    return []


def _constructor(owner: Definition) -> list[Parameter] | None:
    """The parameters of a function, or of the constructor that a class has itself; None if it has none.

    A dataclass has its own fields, and then its bases' that are dataclasses.
    """
    node, source = owner
    if isinstance(node, ast.FunctionDef):
        return [*_arguments(node, source)]
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return [*_arguments(item, source)][1:]  # without self
    if problem := read_bases(owner).problem:
        raise ValueError(problem)
    if not owner.is_dataclass:
        return None
    fields: dict[str, Parameter] = {}
    for base in lineage(owner):
        for parameter in _fields(base) if base.is_dataclass else ():
            fields.setdefault(parameter.name, parameter)
    return [*fields.values()]


def _fields(definition: Definition) -> Iterator[Parameter]:
    """The fields that a dataclass defines itself."""
    for item in definition.node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            outer = item.annotation.value if isinstance(item.annotation, ast.Subscript) else item.annotation
            if ast.unparse(outer) not in NO_PARAMETER:
                place = f"{definition.source.file}:{item.lineno}"
                yield Parameter(item.target.id, item.annotation, item.value, place)


def _arguments(node: ast.FunctionDef, source: Source) -> Iterator[Parameter]:
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(node.args.defaults)) + [*node.args.defaults]
    pairs = [*zip(arguments, defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    for argument, default in pairs:
        yield Parameter(argument.arg, argument.annotation, default, f"{source.file}:{argument.lineno}")

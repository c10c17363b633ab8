"""Classes and functions as their source defines them, with the bases that are in other files: nothing is imported."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from attnx.registry import plugin_files

DATACLASS = ("dataclass", "dataclasses.dataclass")  # spellings of the decorator


class Source(NamedTuple):
    """The source of a module."""

    module: str
    file: Path
    tree: ast.Module


class Definition(NamedTuple):
    """A class or function, and where it is."""

    node: ast.ClassDef | ast.FunctionDef
    source: Source

    def bases(self) -> Iterator[Definition]:
        """The bases of a class, the nearest first, that are in its file or that it imports from attnx or a plug-in."""
        for base in self.node.bases if isinstance(self.node, ast.ClassDef) else ():
            if isinstance(base, ast.Name) and (definition := _find_class(base.id, self.source)):
                yield definition
                yield from definition.bases()

    @property
    def is_dataclass(self) -> bool:
        """Whether a class has the decorator of dataclasses."""
        return any(ast.unparse(decorator).startswith(DATACLASS) for decorator in self.node.decorator_list)


def parse(module: str, file: Path) -> Source:
    """The source of a module; a ValueError, ``file:line: problem``, if it is not Python."""
    try:
        tree = ast.parse(plugin_files.source(module, file).decode("utf-8"), filename=str(file))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}:1: not UTF-8 text ({error.reason})") from None
    except SyntaxError as error:
        raise ValueError(f"{file}:{error.lineno or 1}: {error.msg}") from None
    except (RecursionError, MemoryError):  # of the parser
        raise ValueError(f"{file}:1: expressions are nested too deeply") from None
    return Source(module, file, tree)


def _find_class(name: str, source: Source) -> Definition | None:
    """The class of a name at the top of a module, or where the module imports it from."""
    for item in source.tree.body:
        if isinstance(item, ast.ClassDef) and item.name == name:
            return Definition(item, source)
        if isinstance(item, ast.ImportFrom):
            original = next((alias.name for alias in item.names if name == (alias.asname or alias.name)), None)
            if original is not None:
                imported = _imported_source(item, source)
                return _find_class(original, imported) if imported else None
    return None


def _imported_source(item: ast.ImportFrom, source: Source) -> Source | None:
    """The source of a module of attnx, of a plug-in or of the importing package; None for any other."""
    package = source.module if source.file.name == plugin_files.INIT else source.module.rpartition(".")[0]
    try:
        module = resolve_name("." * item.level + (item.module or ""), package)
        top, is_plugin = module.partition(".")[0], module.startswith(f"{plugin_files.PACKAGE}.")
        file = plugin_files.find_source(module) if top in ("attnx", source.module.partition(".")[0]) else None
        return (_parse_core if top == "attnx" and not is_plugin else parse)(module, file) if file else None
    except (ImportError, ValueError, OSError):  # the import will say so
        return None


@functools.cache
def _parse_core(module: str, file: Path) -> Source:
    """A module of attnx, which does not change while it runs."""
    return parse(module, file)


class Parameter(NamedTuple):
    """A parameter of a function or constructor, or a field of a dataclass."""

    name: str
    annotation: ast.expr | None
    default: ast.expr | None
    place: str


def parameters(definition: Definition) -> Iterable[Parameter]:
    """The parameters of a function, or of a class as Python finds its constructor: its own, or a base's.

    A dataclass has its own fields, and then its bases' that are dataclasses.
    """
    node, source = definition
    if isinstance(node, ast.FunctionDef):
        return _arguments(node, source)
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return islice(_arguments(item, source), 1, None)  # without self
    bases = [*definition.bases()]
    if definition.is_dataclass:
        fields: dict[str, Parameter] = {}
        for owner in (definition, *(base for base in bases if base.is_dataclass)):
            for item in owner.node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    place = f"{owner.source.file}:{item.lineno}"
                    fields.setdefault(item.target.id, Parameter(item.target.id, item.annotation, item.value, place))
        return fields.values()
    return next((inherited for base in bases if (inherited := [*parameters(base)])), [])


def _arguments(node: ast.FunctionDef, source: Source) -> Iterator[Parameter]:
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(node.args.defaults)) + [*node.args.defaults]
    pairs = [*zip(arguments, defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    for argument, default in pairs:
        yield Parameter(argument.arg, argument.annotation, default, f"{source.file}:{argument.lineno}")

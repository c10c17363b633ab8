"""Classes and functions as source defines them, and what a name means there through imports: nothing is imported."""

from __future__ import annotations

import ast
import builtins
import functools
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from attnx.registry import plugin_files

DATACLASS = ("dataclass", "dataclasses.dataclass")  # spellings of the decorator
TYPES_ALONE = ("TYPE_CHECKING", "typing.TYPE_CHECKING")  # conditions of what is not run


class Source(NamedTuple):
    """The source of a module."""

    module: str
    file: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package to which the module's relative imports are relative."""
        return plugin_files.package(self.module, self.file)


class Definition(NamedTuple):
    """A class or function, and where it is."""

    node: ast.ClassDef | ast.FunctionDef
    source: Source

    @property
    def place(self) -> str:
        """``file:line`` of the definition."""
        return f"{self.source.file}:{self.node.lineno}"

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


class Foreign:
    """What is in no plug-in and not in attnx, such as ``nn.Module``: it is not read."""


FOREIGN: Final = Foreign()
Meaning: TypeAlias = Definition | Source | Foreign
"""A class, a module, or something foreign."""


def look_up(expression: ast.expr, source: Source, line: int) -> Meaning | None:
    """What an expression at a line of a module means; None if that cannot be read.

    Raises:
        ValueError: a module that it names is not Python; the message begins with ``file:line``.
        OSError: the file of one cannot be read.
    """
    match expression:
        case ast.Name(id=name):
            return _look_up_name(name, source, line) or (FOREIGN if hasattr(builtins, name) else None)
        case ast.Attribute(value=value, attr=name):
            return _member(name, look_up(value, source, line), source)
        case ast.Subscript(value=value):  # ``Base[T]``
            return look_up(value, source, line)
        case ast.Call(func=function):  # such as a namedtuple
            return FOREIGN if look_up(function, source, line) is FOREIGN else None
    return None


def _look_up_name(name: str, source: Source, line: int = sys.maxsize) -> Meaning | None:
    """What a name means at a line of a module, or after its last; of several meanings, one that can be read."""
    meanings: list[Meaning] = []
    for module in _with_star_imports(source):
        if isinstance(module, Source):
            end = line if module is source else sys.maxsize
            items = [item for item in reversed(module.tree.body) if item.lineno < end]  # the last one first
            statements = [statement for item in items for statement in _statements(item)]
            meanings += filter(None, (_meaning(name, statement, module) for statement in statements))
        else:
            meanings.append(module)
    return next((meaning for meaning in meanings if meaning is not FOREIGN), next(iter(meanings), None))


def _with_star_imports(source: Source) -> list[Source | Foreign]:
    """A module and those of which all names are imported into it, directly or through others."""
    modules: dict[str, Source | Foreign] = {source.module: source}
    pending = [source]
    for importer in pending:  # which grows on the way
        for statement in (statement for item in importer.tree.body for statement in _statements(item)):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                name = _absolute_name(statement, importer)
                module = _module(name, importer)
                if module is not None and name not in modules:
                    modules[name] = module
                    pending += [module] if isinstance(module, Source) else []
    return [*modules.values()]


def _statements(item: ast.AST) -> Iterator[ast.AST]:
    """A statement of a module, or those in its blocks that are run: one of ``try`` and ``except`` is."""
    if isinstance(item, ast.If) and ast.unparse(item.test) in TYPES_ALONE:
        blocks: Iterator[ast.AST] = iter(item.orelse)
    elif isinstance(item, ast.Try | ast.ExceptHandler | ast.If | ast.With):
        blocks = ast.iter_child_nodes(item)
    else:
        yield item
        return
    for inner in blocks:
        yield from _statements(inner)


def _meaning(name: str, statement: ast.AST, source: Source) -> Meaning | None:
    """What a statement binds a name to; None if it does not, or to what cannot be read."""
    match statement:
        case ast.ClassDef(name=bound) if bound == name:
            return Definition(statement, source)
        case (
            ast.Assign(targets=[ast.Name(id=bound)], value=value)
            | ast.AnnAssign(target=ast.Name(id=bound), value=ast.expr() as value)
        ) if bound == name:
            return look_up(value, source, statement.lineno)
        case ast.Import(names=aliases):
            modules = {alias.asname or alias.name.partition(".")[0]: alias for alias in aliases}
            if alias := modules.get(name):
                return _module(alias.name if alias.asname else name, source)
        case ast.ImportFrom(names=aliases):
            for alias in aliases:
                if name == (alias.asname or alias.name):
                    return _member(alias.name, _module(_absolute_name(statement, source), source), source)
    return None


def _member(name: str, owner: Meaning | None, importer: Source) -> Meaning | None:
    """What a module's name means, in it or as a module of the package; all of what is foreign is foreign."""
    if isinstance(owner, Source):
        return _look_up_name(name, owner) or _module(f"{owner.module}.{name}", importer)
    return owner if owner is FOREIGN else None


def _absolute_name(statement: ast.ImportFrom, source: Source) -> str:
    """The module from which a statement imports; "" beyond the package, which the import will say."""
    try:
        return resolve_name("." * statement.level + (statement.module or ""), source.package)
    except ImportError:
        return ""


def _module(name: str, importer: Source) -> Source | Foreign | None:
    """The source of a module of attnx, of a plug-in or of the importing package; None if there is no such module."""
    top, is_plugin = name.partition(".")[0], name.startswith(f"{plugin_files.PACKAGE}.")
    if top not in ("", "attnx", importer.module.partition(".")[0]):
        return FOREIGN
    file = plugin_files.find_source(name) if top else None
    return (_parse_core if top == "attnx" and not is_plugin else parse)(name, file) if file else None


_parse_core = functools.cache(parse)  # a module of attnx does not change while it runs

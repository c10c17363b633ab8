"""Writes a plug-in file for a part that was registered in Python, in a script or a notebook."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attnx.errors import UserError
from attnx.registry.inspect_class import code_of_item, is_literal
from attnx.registry.source_scan import BY_HAND, REGISTER

# Modules of names whose values do not know their module.
HOMES = ("attnx.registry", "typing")


def part_source(kind: str, name: str, item: Callable[..., Any]) -> str:
    """A plug-in file that registers a part: its source, and the imports and definitions that it uses.

    Raises:
        UserError: Python does not know its source, or it uses a value that cannot be written down.
    """
    part = f"the {kind} {name!r}, which was {BY_HAND}"
    if "<locals>" in item.__qualname__:
        raise UserError(f"{part}, is defined within a function; define it outside, so that its source can be kept")
    pieces = _Pieces(part, item.__module__)
    text = pieces.definition(item)
    imports = ["from attnx.registry import register", *pieces.imports]
    register = f'@register("{kind}", "{name}")\n'
    head = [f'"""The {kind} ``{name}``, as it was {BY_HAND}."""', "from __future__ import annotations"]
    return "\n\n".join([*head, "\n".join(dict.fromkeys(imports)), *pieces.definitions.values(), register + text]) + "\n"


class _Pieces:
    """The imports, constants, functions and classes of a module that a part uses, by name."""

    def __init__(self, part: str, module: str) -> None:
        self.part, self.module = part, module
        self.names: Mapping[str, Any] = vars(sys.modules[module]) if module in sys.modules else {}
        self.imports: list[str] = []
        self.definitions: dict[str, str] = {}
        self.visited: set[str] = set()

    def definition(self, item: Callable[..., Any]) -> str:
        """The source of a class or function; what it uses is collected."""
        lines = _lines(item)
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:  # a cell with commands that are not Python
            tree = ast.parse("")
        self.visited.add(item.__name__)  # it may use itself
        node = next((statement for statement in reversed(tree.body) if _defines(statement, item)), None)
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            raise UserError(
                f"{self.part}, has no source to keep with the run (as after python -c, or exec); write it into a file, "
                "a notebook's cell, or plugins/"
            )
        decorators = [decorator for decorator in node.decorator_list if not _registers(decorator)]
        text = "".join(f"@{ast.unparse(decorator)}\n" for decorator in decorators)
        text += "".join(lines[node.lineno - 1 : node.end_lineno]).rstrip()
        for name in _globals(text):
            self._visit(name, tree)
        return text

    def _visit(self, name: str, tree: ast.Module) -> None:
        if name in self.visited or (name not in self.names and name in vars(builtins)):
            return
        self.visited.add(name)
        value = self.names.get(name)
        if line := _imported(name, tree) or self._importing(name, value):
            self.imports.append(line)
        elif is_literal(value):
            self.definitions[name] = f"{name} = {value!r}"
        elif inspect.isfunction(value) or inspect.isclass(value):
            self.definitions[name] = self.definition(value)
        elif name in self.names:
            raise UserError(
                f"{self.part}, uses {name}, of type {type(value).__name__}, which cannot be kept with the run; "
                "make it a knob, a number or a word, or write the part into a file in plugins/"
            )

    def _importing(self, name: str, value: Any) -> str:
        """A line that imports a value by its name, if its module is another and has it."""
        if inspect.ismodule(value):
            return f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
        for home in (getattr(value, "__module__", None), *HOMES):
            qualified = getattr(value, "__name__", name) if home not in HOMES else name
            if (
                home != self.module
                and value is not None
                and getattr(sys.modules.get(str(home)), qualified, None) is value
            ):
                return f"from {home} import {qualified}" + (f" as {name}" if qualified != name else "")
        return ""


def _lines(item: Callable[..., Any]) -> list[str]:
    """The lines of the file or cell that an item was defined in, as Python keeps them for tracebacks."""
    code = code_of_item(item)
    module = sys.modules.get(item.__module__)
    file = code.co_filename if code else getattr(module, "__file__", None)
    return linecache.getlines(file, vars(module) if module else None) if file else []


def _defines(node: ast.stmt, item: Callable[..., Any]) -> bool:
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == item.__name__


def _registers(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in REGISTER


def _imported(name: str, tree: ast.Module) -> str:
    """The line at the top of a source that imports a name, if one does."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            aliases = [alias for alias in node.names if name == (alias.asname or alias.name.partition(".")[0])]
            statement: ast.stmt = ast.Import(aliases)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            aliases = [alias for alias in node.names if name == (alias.asname or alias.name)]
            statement = ast.ImportFrom(node.module, aliases, 0)
        else:
            continue
        if aliases:
            return ast.unparse(ast.fix_missing_locations(statement))
    return ""


def _globals(text: str) -> list[str]:
    """The global names that a definition reads."""
    return list(dict.fromkeys(_free(symtable.symtable(textwrap.dedent(text), "<part>", "exec"))))


def _free(table: symtable.SymbolTable) -> Iterator[str]:
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (not symbol.is_assigned() if is_module else symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _free(inner)

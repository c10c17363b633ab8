"""Parts that a script or a notebook registered: described from the class, and written as a plug-in file."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from attnx.errors import UserError
from attnx.registry.option_types import ALIASES
from attnx.registry.source_scan import BY_HAND, NO_LITERAL, REGISTER, Option, Part, make_option

# Modules of names whose values do not know their module.
HOMES = ("attnx.registry", "typing")


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
            options.append(_option(parameter))
        except (ValueError, SyntaxError) as error:
            raise UserError(f"the {kind} {name!r}, option {parameter.name!r}: {error}") from None
    code = code_of_item(item)
    return Part(
        kind=kind,
        name=name,
        module=item.__module__,
        file=Path(code.co_filename if code else "<interactive>"),
        line=code.co_firstlineno if code else 1,
        doc=inspect.cleandoc(item.__doc__ or ""),
        options=tuple(options),
        injected_params=tuple(injected),
        properties={key: value for key, value in vars(item).items() if key[0] != "_" and is_literal(value)},
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


def _option(parameter: inspect.Parameter) -> Option:
    is_typed = parameter.annotation is not inspect.Parameter.empty
    annotation = ast.parse(_annotation(parameter.annotation), mode="eval").body if is_typed else None
    if not is_literal(parameter.default):
        raise ValueError(NO_LITERAL)
    return make_option(parameter.name, annotation, parameter.default)


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
        definitions = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        node = next((node for node in reversed(definitions) if node.name == item.__name__), None)
        if node is None:
            raise UserError(
                f"{self.part}, has no source to keep with the run (as after python -c, or exec); write it into a file, "
                "a notebook's cell, or plugins/"
            )
        decorators = map(ast.unparse, node.decorator_list)
        text = "".join(f"@{decorator}\n" for decorator in decorators if decorator.partition("(")[0] not in REGISTER)
        text += "".join(lines[node.lineno - 1 : node.end_lineno]).rstrip()
        for name in dict.fromkeys(_global_names(symtable.symtable(textwrap.dedent(text), "<part>", "exec"))):
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
                "make it an option, a number or a word, or write the part into a file in plugins/"
            )

    def _importing(self, name: str, value: Any) -> str:
        """A line that imports a value by its name, if its module is another and has it."""
        if inspect.ismodule(value):
            return f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
        for home in (getattr(value, "__module__", None), *HOMES):
            qualified = getattr(value, "__name__", name) if home not in HOMES else name
            has_value = value is not None and getattr(sys.modules.get(str(home)), qualified, None) is value
            if has_value and home != self.module:
                return f"from {home} import {qualified}" + (f" as {name}" if qualified != name else "")
        return ""


def _lines(item: Callable[..., Any]) -> list[str]:
    """The lines of the file or cell that an item was defined in, as Python keeps them for tracebacks."""
    code = code_of_item(item)
    module = sys.modules.get(item.__module__)
    file = code.co_filename if code else getattr(module, "__file__", None)
    return linecache.getlines(file, vars(module) if module else None) if file else []


def _imported(name: str, tree: ast.Module) -> str:
    """The line at the top of a source that imports a name, if one does."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            names = {alias.asname or alias.name.partition(".")[0]: alias for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = {alias.asname or alias.name: alias for alias in node.names}
        else:
            continue
        if name in names:
            head = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
            return f"{head}import {ast.unparse(names[name])}"
    return ""


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """The global names that a definition reads."""
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (not symbol.is_assigned() if is_module else symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _global_names(inner)

"""The catalog of parts, read from their source with `ast`: no part, and so no torch, is imported."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnx.registry import plugin_files
from attnx.registry.lineage import lineage, parameters
from attnx.registry.name_lookup import Definition, parse
from attnx.registry.part import KINDS, NAME_RULE, NO_LITERAL, Option, Part, inherit, is_part_name, make_option

# What is searched for parts that come with attnx: these modules and packages, and the folders of whole problems.
CORE = (*KINDS.values(), "attnx.problems")
by_hand: dict[tuple[str, str], Part] = {}
"""The parts that a script or a notebook registered."""

# Spellings of the decorators.
REGISTER = ("register", "registry.register", "attnx.register", "attnx.registry.register")


@dataclass
class Catalog:
    """All parts by kind and name, and a line for every plug-in file that could not be read."""

    parts: dict[tuple[str, str], Part] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """The registered names of a kind, core first, each group in alphabetical order."""
        result = [part for (of, _), part in self.parts.items() if of == kind]
        return [part.name for part in sorted(result, key=lambda part: (part.origin != "core", part.name))]

    def add(self, part: Part) -> None:
        """Add a part; of two with one name the first stays and the second is reported as broken."""
        existing = self.parts.get((part.kind, part.name))
        if existing is None:
            self.parts[part.kind, part.name] = part
        elif existing.file != part.file or existing.line != part.line:
            self.broken.append(
                f"{part.place}: the {part.kind} {part.name!r} is already registered at {existing.place}; rename one"
            )


def catalog() -> Catalog:
    """All parts of the core, of the current plug-ins, and of this process."""
    result = scan_files(plugin_files.configured_folders())
    return Catalog({**by_hand, **result.parts}, result.broken) if by_hand else result


@functools.lru_cache(maxsize=8)
def scan_files(folders: tuple[str, ...]) -> Catalog:
    """Scan all files, those of plug-ins in folders; cached until ``attnx.registry.forget_changed``."""
    modules, left_out = plugin_files.search_folders(folders)
    result = Catalog(broken=left_out)
    for part in _core_parts():
        result.add(part)
    for module, file in modules.items():
        _add_plugin(result, file, module, f"plug-in {plugin_files.relative_place(module, file)}")
    for point in entry_points():
        installed = plugin_files.find_source(point.value)
        if installed is None:
            result.broken.append(f"the entry point {point.name} = {point.value}: no such module is installed")
            continue
        for module, file in plugin_files.module_tree(point.value, installed):
            _add_plugin(result, file, module, f"package {point.value.partition('.')[0]}")
    return result


@functools.cache
def entry_points() -> tuple[importlib.metadata.EntryPoint, ...]:
    """What installed packages offer, which is looked for once."""
    return tuple(importlib.metadata.entry_points(group="attnx.plugins"))


@functools.cache
def _core_parts() -> tuple[Part, ...]:
    """The parts of the core, which do not change while it runs."""
    files = {
        module: file
        for place in CORE
        if (top := plugin_files.find_source(place))
        for module, file in plugin_files.module_tree(place, top)
    }
    return tuple(part for module, file in files.items() for part in read_parts(file, module, "core"))


def _add_plugin(result: Catalog, file: Path, module: str, origin: str) -> None:
    try:
        for part in read_parts(file, module, origin):
            result.add(part)
    except (ValueError, OSError) as error:
        result.broken.append(str(error))


def read_parts(file: Path, module: str, origin: str) -> list[Part]:
    """Read the parts a file registers, without running it; for an imported plug-in, the parts that it registered.

    Raises:
        ValueError: the file is not Python, or a decorator or an option cannot be read; the message begins with
            ``file:line``.
    """
    source = parse(module, file)
    try:
        return [
            _read_part(Definition(node, source), decorator, origin)
            for node in source.tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            for decorator in _registrations(node)
        ]
    except RecursionError:
        raise ValueError(f"{file}:1: a class is its own base") from None


def _registrations(node: ast.ClassDef | ast.FunctionDef) -> list[ast.Call]:
    """The decorators that register a class or function."""
    calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in REGISTER]


def _read_part(definition: Definition, decorator: ast.Call, origin: str) -> Part:
    node, (module, file, _) = definition
    try:
        kind, name = (ast.literal_eval(argument) for argument in decorator.args)
    except (ValueError, TypeError):
        kind = name = None
    if not (isinstance(kind, str) and isinstance(name, str)):
        raise ValueError(f"{file}:{decorator.lineno}: write @register(kind, name) with two plain strings")
    if kind not in KINDS:
        raise ValueError(f"{file}:{decorator.lineno}: there is no kind {kind!r}; the kinds are {', '.join(KINDS)}")
    if not is_part_name(name):
        raise ValueError(f"{file}:{decorator.lineno}: {NAME_RULE}, not {name!r}")
    options, injected_params = _read_signature(definition)
    declared = _read_declarations(definition, [decorator])
    declarations = _inherited(definition, [option.name for option in options]) | _values(declared)
    lines = {key: line for key, (_, line) in declared.items()}
    doc = ast.get_docstring(node) or ""
    return Part(kind, name, module, file, node.lineno, doc, options, injected_params, declarations, origin, lines)


def _inherited(definition: Definition, options: Collection[str]) -> dict[str, Any]:
    """What the bases of a part with these options declare."""
    declarations: dict[str, Any] = {}
    for base in reversed(lineage(definition)[1:]):
        declared = _values(_read_declarations(base, _registrations(base.node)))
        signature = parameters(base) if "check_options" in declared else []
        checked = [parameter.name for parameter in signature if parameter.default is not None]
        declarations |= inherit(declared, options, checked, base.source.package)
    return declarations


def _values(declared: Mapping[str, tuple[Any, int]]) -> dict[str, Any]:
    return {key: value for key, (value, _) in declared.items()}


def _read_signature(definition: Definition) -> tuple[tuple[Option, ...], tuple[str, ...]]:
    """The options, which have defaults, and the names of the parameters that the builder supplies, which have none."""
    options, injected = [], []
    for parameter in parameters(definition):
        if parameter.default is None:
            injected.append(parameter.name)
        else:
            try:
                options.append(make_option(parameter.name, parameter.annotation, _literal(parameter.default)))
            except ValueError as error:
                raise ValueError(f"{parameter.place}: option {parameter.name!r}: {error}") from None
    return tuple(options), tuple(injected)


def _literal(default: ast.expr) -> Any:
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError):
        raise ValueError(NO_LITERAL) from None


def _read_declarations(definition: Definition, decorators: Sequence[ast.Call]) -> dict[str, tuple[Any, int]]:
    """What a class declares, with the lines: its literal attributes, and over them the keywords of decorators.

    The decorator above the others is the last that Python calls.
    """
    declared, node = dict[str, tuple[Any, int]](), definition.node
    for item in node.body if isinstance(node, ast.ClassDef) else []:
        match item:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                with suppress(ValueError, TypeError):
                    declared[name] = (ast.literal_eval(value), value.lineno)
    for decorator in reversed(decorators):
        for keyword in decorator.keywords:
            try:
                declared[str(keyword.arg)] = (ast.literal_eval(keyword.value), keyword.value.lineno)
            except (ValueError, TypeError):
                place = f"{definition.source.file}:{decorator.lineno}"
                raise ValueError(f"{place}: write {keyword.arg} as a literal") from None
    return declared

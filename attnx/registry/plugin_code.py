"""The plug-in parts of a configuration, and their source files with digests."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import resolve_name
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.registry import plugin_files
from attnx.registry.part import BY_HAND, MULTI_SELECT_KINDS, Part
from attnx.registry.plugin_files import INIT, PACKAGE
from attnx.registry.python_parts import source_text
from attnx.registry.source_scan import REGISTER, catalog


def plugin_parts(config: Mapping[str, Any]) -> list[Part]:
    """The plug-in parts that a configuration uses, and those that such parts build by name."""
    plugins = [part for part in catalog().parts.values() if part.origin != "core"]
    used = [part for part in plugins if _is_used(part, config)]
    for part in used:  # which grows on the way
        built = {key for text in source_files([part]).values() for key in _built(text)}
        used += [plugin for plugin in plugins if (plugin.kind, plugin.name) in built and plugin not in used]
    return used


def source_files(parts: Iterable[Part]) -> dict[str, bytes]:
    """The source of parts: their files, and those that they import from a plug-in folder or their own package.

    Keys are places in the folder, ``mine.py``, or with the package, ``my_package/scorers.py``. The class of a part that
    was registered in Python is text to read, ``scorer_mine.txt``: it cannot be run without what is around it.
    """
    files: dict[str, bytes] = {}
    pending: list[str] = []
    for part in parts:
        if part.origin != BY_HAND:
            pending.append(part.module)
        elif text := source_text(registry.find(part.kind, part.name)):
            files[f"{part.kind}_{part.name}.txt"] = text.encode()
    while pending:
        module = pending.pop()
        file = plugin_files.find_source(module)
        if file is None or (place := plugin_files.relative_place(module, file)) in files:
            continue
        files[place] = plugin_files.source(module, file)
        package = module.rpartition(".")[0]
        pending += _imported(files[place], module if file.name == INIT else package)
        if package not in ("", PACKAGE):
            pending.append(package)  # it is run before what lies in it
    return dict(sorted(files.items()))


def reject_parts_of_this_process(config: Mapping[str, Any], who: str) -> None:
    """Refuse a configuration with parts that were registered in Python, which other processes do not see."""
    for part in plugin_parts(config):
        if part.origin == BY_HAND:
            hidden = f"the {part.kind} {part.name!r} was {BY_HAND}, where {who} cannot see it"
            raise UserError(f"{hidden}; write it into a file in plugins/")


def digests(code: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {place: hashlib.sha256(text).hexdigest() for place, text in code.items()}


def short_digest(files: Mapping[str, str]) -> str:
    """A digest of eight letters of all files, whatever their names; empty for none."""
    return hashlib.sha256("\n".join(sorted(files.values())).encode()).hexdigest()[:8] if files else ""


def _is_used(part: Part, config: Mapping[str, Any]) -> bool:
    """Whether a configuration chooses a part or has its name in an option."""
    if part.kind in MULTI_SELECT_KINDS:
        return part.name in (config.get(part.kind) or {})
    node = config.get(part.kind)
    return (isinstance(node, Mapping) and node.get("name") == part.name) or part.name in _option_words(config)


def _option_words(config: Mapping[str, Any]) -> Iterator[str]:
    """The words in options, at any depth: names of parts that are built by other parts are among them."""
    nodes = [node for node in config.values() if isinstance(node, Mapping)]
    pending = [value for node in nodes for key, value in node.items() if key != "name"]
    for value in pending:  # which grows on the way
        if isinstance(value, Mapping | list):
            pending += value.values() if isinstance(value, Mapping) else value
        elif isinstance(value, str):
            yield value


def _imported(text: bytes, package: str) -> list[str]:
    """The modules of plug-ins, and of the same package, that a source imports, and names that may be such.

    A text such as ``".figures.draw"`` is what a part declares to be loaded later.
    """
    modules: list[str] = []
    for node in ast.walk(_tree(text)):
        match node:
            case ast.Import(names=names):
                modules += [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                with suppress(ImportError):  # beyond the package, which the import will say
                    base = resolve_name("." * level + (module or ""), package)
                    modules += [base, *(f"{base}.{alias.name}" for alias in names)]
            case ast.Constant(value=str(dotted)) if re.fullmatch(r"(\.[a-z_]\w*)+", dotted):
                modules += [package + dotted, package + dotted.rpartition(".")[0]]
    top = package.partition(".")[0]
    return [name for name in modules if name.startswith(f"{PACKAGE}.") or name.partition(".")[0] == top != "attnx"]


def _built(text: bytes) -> set[tuple[str, str]]:
    """The parts that a source builds by kind and name: ``registry.build("metric", "mine")``."""
    parts = set()
    for node in ast.walk(_tree(text)):
        match node:
            case ast.Call(func=func, args=[ast.Constant(value=str(kind)), ast.Constant(value=str(name)), *_]):
                if ast.unparse(func) not in REGISTER:
                    parts.add((kind, name))
    return parts


def _tree(text: bytes) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError):  # of what is imported; the import will say so
        return ast.Module([], [])

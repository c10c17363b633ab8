"""What parts exist, read from their source with `ast`: nothing is imported (so no torch) to know a part's knobs."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnx.registry import plugin_files
from attnx.registry.param_types import KnobType, parse_type

# Where the core keeps the parts of each kind: kind -> package.
KINDS = {
    "scorer": "attnx.attention.scorers",
    "scope": "attnx.attention.scopes",
    "query": "attnx.attention.query_inputs",
    "normalizer": "attnx.attention.normalizers",
    "attention": "attnx.attention",
    "kernel": "attnx.accel.attention",
    "model": "attnx.models",
    "encoder": "attnx.nn.encoders",
    "decoder": "attnx.nn.decoders",
    "readout": "attnx.nn.readouts",
    "output": "attnx.nn.outputs",
    "task": "attnx.tasks",
    "metric": "attnx.metrics",
    "tokenizer": "attnx.data.tokenizers",
    "decoding": "attnx.decoding",
    "optimizer": "attnx.training.optimizers",
    "lr_schedule": "attnx.training.lr_schedules",
    "trainer": "attnx.training.trainers",
    "logger": "attnx.loggers",
}
# Kinds of which several can be chosen at once, each a key of the one node: ``+query=[token,last_context]``.
SETS = ("query", "logger")


# The origin of parts that were registered in no part file, such as in a script or a notebook's cell; and these.
BY_HAND = "registered in Python"
by_hand: dict[tuple[str, str], Part] = {}

# How a part may spell the decorator; anything else called register is not ours.
REGISTER = ("register", "registry.register", "attnx.register", "attnx.registry.register")


@dataclass(frozen=True)
class Knob:
    """One configurable constructor parameter of a part: what follows a default is what YAML may set."""

    name: str
    annotation: str
    type: KnobType
    default: Any


@dataclass(frozen=True)
class Part:
    """One registered part as its source describes it."""

    kind: str
    name: str
    module: str
    symbol: str
    file: Path
    line: int
    doc: str
    knobs: tuple[Knob, ...]
    supplied: tuple[str, ...]
    declares: dict[str, Any]
    origin: str
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """``file:line`` of the part."""
        return f"{self.file}:{self.line}"

    def doc_line(self, word: str) -> str:
        """The text after ``word:`` in the docstring (``Formula`` and ``Source`` are what every part states)."""
        found = re.search(rf"^{word}:(.*(?:\n[ \t]+\S.*)*)", self.doc, re.MULTILINE)
        return " ".join(found[1].split()).strip("`") if found else ""


@dataclass
class Catalog:
    """All parts by kind and name, and a line for every plug-in file that could not be read."""

    parts: dict[tuple[str, str], Part] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """The registered names of a kind, core first, each group in alphabetical order."""
        found = [part for (of, _), part in self.parts.items() if of == kind]
        return [part.name for part in sorted(found, key=lambda part: (part.origin != "core", part.name))]

    def add(self, part: Part) -> None:
        """Add a part; a name that is taken is reported as broken and the first one stays."""
        taken = self.parts.get((part.kind, part.name))
        if taken is None:
            self.parts[part.kind, part.name] = part
        elif taken.file != part.file or taken.line != part.line:
            self.broken.append(
                f"{part.place}: the {part.kind} {part.name!r} is already registered at {taken.place}; rename one"
            )


def catalog() -> Catalog:
    """Every part of the core and of the plug-ins that are in force now, and those registered in this process."""
    written = tuple((file, file.stat().st_mtime_ns) for file in plugin_files.files())
    found = _scan(written, tuple(plugin_files.left_out()))
    return Catalog({**by_hand, **found.parts}, found.broken) if by_hand else found


@functools.lru_cache(maxsize=8)
def _scan(written: tuple[tuple[Path, int], ...], left_out: tuple[str, ...]) -> Catalog:
    """Read them again when a file was added or written, as happens in a notebook's long life."""
    found = Catalog(broken=list(left_out))
    for part in _core_parts():
        found.add(part)
    seen: dict[str, Path] = {}
    for file, _ in written:
        if file.stem in seen:
            found.broken.append(f"{file}:1: {seen[file.stem]} has the same name and comes first")
        else:
            seen[file.stem] = file
            _add_plugin(found, file, f"attnx.plugins.{file.stem}", f"plug-in {file.name}")
    for point in importlib.metadata.entry_points(group="attnx.plugins"):
        installed = installed_file(point.value)
        if installed is None:
            found.broken.append(f"the entry point {point.name} = {point.value}: no such module is installed")
        else:
            _add_plugin(found, installed, point.value, f"package {point.value.partition('.')[0]}")
    return found


@functools.cache
def _core_parts() -> tuple[Part, ...]:
    """Those of attnx itself, which do not change while it runs."""
    return tuple(part for module, file in _core_files() for part in read_parts(file, module, "core"))


def _core_files() -> Iterator[tuple[str, Path]]:
    root = Path(__file__).parents[1]
    files: dict[Path, None] = {}
    for package in KINDS.values():
        files |= dict.fromkeys(sorted(root.joinpath(*package.split(".")[1:]).rglob("*.py")))
    for file in files:
        yield ".".join(["attnx", *file.relative_to(root).with_suffix("").parts]), file


def forget_written() -> bool:
    """Have plug-ins read and imported anew if one was written since it was imported; return whether one was."""
    if changed := plugin_files.forget_changed():
        _scan.cache_clear()
    return changed


def installed_file(module: str) -> Path | None:
    """The file of an installed module, found without importing its parents."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin).parent.joinpath(*rest)
    candidates = [place.with_suffix(".py"), place / "__init__.py"] if rest else [Path(spec.origin)]
    return next((file for file in candidates if file.is_file()), None)


def _add_plugin(found: Catalog, file: Path, module: str, origin: str) -> None:
    try:
        parts = read_parts(file, module, origin)
    except SyntaxError as error:
        found.broken.append(f"{file}:{error.lineno or 1}: {error.msg}")
    except (ValueError, OSError) as error:
        found.broken.append(f"{error}")
    else:
        for part in parts:
            found.add(part)


def read_parts(file: Path, module: str, origin: str) -> list[Part]:
    """Read the parts a file registers, without running it; of an imported plug-in, those that it registered.

    Raises:
        SyntaxError: the file is not Python.
        ValueError: a decorator or a knob cannot be read; the message begins with ``file:line``.
    """
    try:
        tree = ast.parse(plugin_files.source(module, file).decode("utf-8"), filename=str(file))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}:1: not UTF-8 text ({error.reason})") from None
    return [
        _read_part(node, decorator, file, module, origin)
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in REGISTER
    ]


def _read_part(node: ast.ClassDef | ast.FunctionDef, decorator: ast.Call, file: Path, module: str, origin: str) -> Part:
    try:
        kind, name = (ast.literal_eval(argument) for argument in decorator.args)
    except (ValueError, TypeError):
        kind = name = None
    if not (isinstance(kind, str) and isinstance(name, str)):
        raise ValueError(f"{file}:{decorator.lineno}: write @register(kind, name) with two plain strings")
    if kind not in KINDS:
        raise ValueError(f"{file}:{decorator.lineno}: there is no kind {kind!r}; the kinds are {', '.join(KINDS)}")
    knobs, supplied = _read_signature(_constructor(node), file)
    declared = _read_declarations(node, decorator, file)
    return Part(
        kind=kind,
        name=name,
        module=module,
        symbol=node.name,
        file=file,
        line=node.lineno,
        doc=ast.get_docstring(node) or "",
        knobs=knobs,
        supplied=supplied,
        declares={name: value for name, (value, _) in declared.items()},
        origin=origin,
        lines={name: line for name, (_, line) in declared.items()},
    )


def _constructor(node: ast.ClassDef | ast.FunctionDef) -> ast.FunctionDef | None:
    if isinstance(node, ast.FunctionDef):
        return node
    found = (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__")
    return next(found, None)


def _read_signature(node: ast.FunctionDef | None, file: Path) -> tuple[tuple[Knob, ...], tuple[str, ...]]:
    """Split a constructor's parameters: with a default it is a knob, without one the builder supplies it."""
    if node is None:
        return (), ()
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(node.args.defaults)) + [*node.args.defaults]
    pairs = [*zip(arguments, defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    knobs, supplied = [], []
    for argument, default in pairs:
        if argument.arg == "self":
            continue
        if default is None:
            supplied.append(argument.arg)
        else:
            knobs.append(_read_knob(argument, default, file))
    return tuple(knobs), tuple(supplied)


def _read_knob(argument: ast.arg, default: ast.expr, file: Path) -> Knob:
    where = f"{file}:{argument.lineno}: knob {argument.arg!r}"
    if argument.annotation is None:
        raise ValueError(f"{where} needs a type, such as {argument.arg}: int = ...")
    try:
        knob_type = parse_type(argument.annotation)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    try:
        value = ast.literal_eval(default)
    except (ValueError, TypeError):
        raise ValueError(f"{where} needs a literal default (a number, word, list or None)") from None
    value = list(value) if isinstance(value, tuple) else value
    if not knob_type.accepts(value):
        raise ValueError(f"{where}: its default {value!r} is not {knob_type.phrase}")
    return Knob(argument.arg, ast.unparse(argument.annotation), knob_type, value)


def _read_declarations(
    node: ast.ClassDef | ast.FunctionDef, decorator: ast.Call, file: Path
) -> dict[str, tuple[Any, int]]:
    """The declarations of a part with their lines: literal class attributes and keywords of the decorator."""
    declared = {}
    for keyword in decorator.keywords:
        try:
            declared[str(keyword.arg)] = (ast.literal_eval(keyword.value), keyword.value.lineno)
        except (ValueError, TypeError):
            raise ValueError(f"{file}:{decorator.lineno}: write {keyword.arg} as a literal") from None
    for item in node.body if isinstance(node, ast.ClassDef) else []:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            declared[name] = (ast.literal_eval(value), value.lineno)
        except ValueError:
            continue
    return declared

"""The registry of parts: register a class by kind and name, find it, build it from plain values."""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from attnx.errors import UserError, suggest
from attnx.registry.option_types import (
    Depth,
    NonNegativeFloat,
    NonNegativeInt,
    PartSpec,
    PositiveFloat,
    PositiveInt,
    Probability,
    Size,
    Time,
    Width,
)
from attnx.registry.part import BY_HAND, KINDS, MULTI_SELECT_KINDS, NAME_RULE, Part, is_part_name, undeclared
from attnx.registry.plugin_errors import advice, report_plug_in_errors
from attnx.registry.plugin_files import PACKAGE, searched, unload_changed
from attnx.registry.python_parts import describe_class
from attnx.registry.source_scan import by_hand, catalog, scan_files
from attnx.registry.synonyms import suggest_known

__all__ = [
    "NonNegativeFloat",
    "NonNegativeInt",
    "PartSpec",
    "PositiveInt",
    "Depth",
    "Width",
    "Probability",
    "PositiveFloat",
    "Size",
    "Time",
    "build",
    "check_members",
    "declarations",
    "describe",
    "fill_in",
    "find",
    "import_declared",
    "registered_name",
    "names",
    "parse_spec",
    "register",
    "with_defaults",
]

T = TypeVar("T", bound=Callable[..., Any])

_registered: dict[tuple[str, str], Callable[..., Any]] = {}


def register(kind: str, name: str, **declarations: object) -> Callable[[T], T]:
    """Decorator that registers a class or function by kind and name.

    Its parameters with defaults are its options: their types and its docstring are the whole configuration. It declares
    by literal class attributes, or by keywords here: ``register("model", "m", uses=("scope",))``.

    Raises:
        UserError: an unknown kind, a name that another class has, or an option that cannot be configured.
    """
    if kind not in KINDS:
        raise UserError(f"cannot register {name!r}: there is no kind {kind!r}{suggest(kind, KINDS)}")
    if not is_part_name(name):
        raise UserError(f"cannot register {name!r}: {NAME_RULE}")

    def add(item: T) -> T:
        if not isinstance(item, type | types.FunctionType):
            raise UserError(f"cannot register {item!r} as the {kind} {name!r}: expected a class or a function")
        existing, registered = catalog().parts.get((kind, name)), _registered.get((kind, name))
        is_by_hand = existing is None or existing.origin == BY_HAND
        if existing is not None and not is_by_hand and _file(item) != existing.file.resolve():
            raise UserError(f"the {kind} {name!r} is already registered at {existing.place}; choose another name")
        # The same file or notebook cell may register it again.
        if registered and (_file(registered), registered.__qualname__) != (_file(item), item.__qualname__):
            taken = f"the {kind} {name!r} is already registered by {registered.__module__}"
            raise UserError(f"{taken}; rename the one in {item.__module__}")
        for key, value in declarations.items():
            setattr(item, key, value)
        if is_by_hand and not item.__module__.startswith("attnx."):
            by_hand[kind, name] = describe_class(kind, name, item)
        _registered[kind, name] = item
        return item

    return add


def _file(item: Callable[..., Any]) -> Path | None:
    file = getattr(sys.modules.get(item.__module__), "__file__", None)
    return Path(file).resolve() if file else None


def names(kind: str) -> list[str]:
    """The names registered for a kind: the core's, the plug-ins', and those registered by hand in this process."""
    return catalog().names(kind)


def describe(kind: str, name: str) -> Part:
    """Describe a part without importing it.

    Raises:
        UserError: no such part; the message holds the near misses.
    """
    if (part := catalog().parts.get((kind, name))) is None:
        scan_files.cache_clear()  # it may be in a file that is new
        part = catalog().parts.get((kind, name))
    if part is None:
        raise UserError(unknown(kind, name, names(kind)))
    return part


def unknown(kind: str, name: str, candidates: Iterable[str]) -> str:
    """The message on an unknown choice: other kinds that have the name, near misses; for a part, what was searched."""
    elsewhere = [other for other in KINDS if name in names(other)]
    is_of = f", which is the name of another kind of part ({', '.join(elsewhere)})" if elsewhere else ""
    message = f"unknown {kind} {name!r}{is_of}{suggest_known(name, candidates, f'{kind}=')}"
    if kind in KINDS:
        message += f"; {searched()}" + "".join(f"; a plug-in was left out: {line}" for line in catalog().broken)
    return message


def unknown_option(kind: str, name: str, option: object) -> str:
    """The message on an option that a part does not have."""
    options = [known.name for known in describe(kind, name).options]
    hint = suggest_known(str(option), options, f"{kind}.") or "; it has none"
    return f"the {kind} {name!r} has no option {option!r}{hint}"


def find(kind: str, name: str) -> Callable[..., Any]:
    """Import a part's file and return the class.

    Raises:
        UserError: no such part, or its file cannot be imported (with file and line).
    """
    if (kind, name) not in _registered:
        info = describe(kind, name)
        try:
            with report_plug_in_errors(info):
                importlib.import_module(info.module)
        except BaseException:
            _forget(info.module)  # it may have registered the part before it failed
            raise
        if (kind, name) not in _registered:
            raise UserError(f"{info.place}: importing {info.module} did not register the {kind} {name!r}")
    return _registered[kind, name]


def declarations(kind: str, name: str) -> dict[str, Any]:
    """What a part declares, without importing it; all that every part of its kind has.

    Raises:
        UserError: no such part, or it lacks a declaration that every part of its kind has.
    """
    part = describe(kind, name)
    if wrong := undeclared(part):
        raise UserError(f"the {kind} {name!r}, {wrong}; {advice(part)}")
    return part.declarations


def import_declared(part: Part, path: str) -> Callable[..., Any]:
    """Import a function that a part declares by its dotted path, ``.config.resolve`` where it is beside the part.

    Raises:
        UserError: the part is a plug-in, and its module cannot be imported or has no such function.
    """
    module, _, function = path.rpartition(".")
    with nullcontext() if part.origin == "core" else report_plug_in_errors(part):
        imported: Callable[..., Any] = getattr(importlib.import_module(module, part.package), function)
    return imported


def check(kind: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check values against a part's options and fill in the defaults, without importing the part.

    Raises:
        UserError: an unknown part or option, a value of the wrong type, or a part that lacks a declaration of its kind.
    """
    part = describe(kind, name)
    declarations(kind, name)  # raises if one is missing
    options = {option.name: option for option in part.options}
    for key, value in values.items():
        if key not in options:
            raise UserError(unknown_option(kind, name, key))
        if not options[key].type.accepts(value):
            node = f"{kind}.{name}" if kind in MULTI_SELECT_KINDS else kind
            raise UserError(f"{node}.{key}={_shown(value)}: expected {options[key].type.phrase}")
    return {option.name: option.type.convert(values.get(option.name, option.default)) for option in part.options}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def check_members(kind: str, members: Any) -> dict[str, dict[str, Any]]:
    """Check the parts of a multi-select kind, by name with their options or None, as :func:`check` does.

    Raises:
        UserError: as :func:`check`, or something else stands for the parts or for the options of one.
    """
    if not isinstance(members, Mapping):
        raise UserError(f"{kind}={_shown(members)}: expected options by name, as in {{{names(kind)[0]}: {{}}}}")
    for name, options in members.items():
        if not isinstance(options, Mapping | None):
            message = f"{kind}.{name}={_shown(options)}: expected the options of a {kind}"
            if options is False:
                remaining = ",".join(str(member) for member in members if member != name)
                message += f"; to leave it out, list the others: {kind}=[{remaining}]"
            raise UserError(message)
    return {str(name): check(kind, str(name), options or {}) for name, options in members.items()}


def forget_changed() -> None:
    """Search plug-ins anew; one whose file changed after its import is imported again when it is used next."""
    scan_files.cache_clear()
    if unload_changed():
        _forget(PACKAGE)


def _forget(module: str) -> None:
    """Forget the parts that a module, or one in it, has registered."""
    for key, item in [*_registered.items()]:
        if f"{item.__module__}.".startswith(f"{module}."):
            del _registered[key]


def registered_name(kind: str, cls: type) -> str | None:
    """The name under which a class is registered; None if it is not."""
    return next((name for (item_kind, name), item in _registered.items() if item_kind == kind and item is cls), None)


def parse_spec(kind: str, choice: PartSpec) -> tuple[str, dict[str, Any]]:
    """Split a choice into name and options: ``"mlp"``, ``("mlp", {"depth": 2})`` or ``{"name": "mlp", "depth": 2}``."""
    if isinstance(choice, str):
        return choice, {}
    if isinstance(choice, Mapping):
        values = dict(choice)
        if "name" not in values:
            raise UserError(f"the {kind} has no name; choose from {', '.join(names(kind))}")
        return str(values.pop("name")), values
    match choice:
        case (str(name), Mapping() as options):
            return name, dict(options)
    raise UserError(f'{kind}={choice!r}: expected a name, or a name with options, as in ("mlp", {{"depth": 2}})')


def fill_in(kind: str, choice: PartSpec) -> dict[str, Any]:
    """Name and options of a choice, with the defaults of those that it leaves out; raises as :func:`check`."""
    name, values = parse_spec(kind, choice)
    return {"name": name, **check(kind, name, values)}


def build(kind: str, choice: PartSpec, /, **supplied: Any) -> Any:
    """Build a part from its name and options, and the supplied values that its constructor takes.

    Raises:
        UserError: as :func:`check` and :func:`find`, the part itself refused its options, or the constructor of a
            plug-in raised something or returned nothing.
    """
    name, values = parse_spec(kind, choice)
    options, info = check(kind, name, values), describe(kind, name)
    if missing := [size for size in info.injected_params if size not in supplied]:
        hint = suggest(missing[0], supplied.keys() - info.injected_params)
        raise UserError(f"{info.place}: the {kind} {name!r} needs {', '.join(missing)}, which nothing supplies{hint}")
    constructor, sizes = find(kind, name), {size: supplied[size] for size in info.injected_params}
    with nullcontext() if info.origin == "core" else report_plug_in_errors(info):
        part = constructor(**sizes, **options)
    if part is None:
        raise UserError(f"{info.place}: the {kind} {name!r} returned nothing; return what it builds")
    return part


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored configuration with the defaults of options that it lacks, since they are newer than it.

    Raises:
        UserError: it names a part or an option that no longer exists.
    """
    nodes = {kind: config[kind] for kind in KINDS if kind in config}
    return {**config} | {
        kind: check_members(kind, node or {}) if kind in MULTI_SELECT_KINDS else fill_in(kind, node)
        for kind, node in nodes.items()
    }

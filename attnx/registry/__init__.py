"""The one door to all parts: register a class under a kind and a name, find it, build it from plain values."""

from __future__ import annotations

import copy
import importlib
import json
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from attnx.errors import UserError, near_misses
from attnx.registry.declarations import advice, undeclared
from attnx.registry.inspect_class import describe
from attnx.registry.param_types import Choice, Natural, NonNegative, Positive, Probability, Rate, Size, Time
from attnx.registry.plugin_files import PACKAGE
from attnx.registry.source_scan import BY_HAND, KINDS, SETS, Part, by_hand, catalog, forget_written

__all__ = [
    "Choice",
    "Natural",
    "NonNegative",
    "Positive",
    "Probability",
    "Rate",
    "Size",
    "Time",
    "build",
    "declarations",
    "filled",
    "find",
    "name_of",
    "names",
    "part",
    "register",
    "spec",
]

T = TypeVar("T", bound=Callable[..., Any])
PartSpec = str | tuple[str, Mapping[str, Any]] | Mapping[str, Any]

_registered: dict[tuple[str, str], Callable[..., Any]] = {}


def register(kind: str, name: str, **declared: Any) -> Callable[[T], T]:
    """Register the class (or function) below under a kind and a name.

    Its docstring, its parameters with defaults (the knobs) and their types are all the configuration there is. A class
    declares literals as class attributes, a function as keywords: ``register("model", "m", uses=("scope",))``.

    Raises:
        UserError: the kind is unknown, another class has the name, or a knob of a part that is in no part file cannot
            be configured.
    """
    if kind not in KINDS:
        raise UserError(f"cannot register {name!r}: there is no kind {kind!r}{near_misses(kind, KINDS)}")

    if not isinstance(name, str):
        raise UserError(f"cannot register {name!r}: the name of a {kind} is a word")

    def keep(item: T) -> T:
        if not isinstance(item, type | types.FunctionType):
            raise UserError(f"cannot register {item!r} as the {kind} {name!r}: expected a class or a function")
        _refuse_taken(kind, name, item)
        for declaration, value in declared.items():
            setattr(item, declaration, value)
        known = catalog().parts.get((kind, name))
        if (known is None or known.origin == BY_HAND) and not item.__module__.startswith("attnx."):
            by_hand[kind, name] = describe(kind, name, item)
        _registered[kind, name] = item
        return item

    return keep


def _refuse_taken(kind: str, name: str, item: Callable[..., Any]) -> None:
    """Refuse a name that another file's part has; the same file, or the same notebook cell run again, may take it."""
    known = catalog().parts.get((kind, name))
    if known is not None and known.origin != BY_HAND and _file(item) != known.file.resolve():
        raise UserError(f"the {kind} {name!r} is already registered at {known.place}; choose another name")
    taken = _registered.get((kind, name))
    if taken is not None and (_file(taken), taken.__qualname__) != (_file(item), item.__qualname__):
        raise UserError(
            f"the {kind} {name!r} is already registered by {taken.__module__}; rename the one in {item.__module__}"
        )


def _file(item: Callable[..., Any]) -> Path | None:
    file = getattr(sys.modules.get(item.__module__), "__file__", None)
    return Path(file).resolve() if file else None


def names(kind: str) -> list[str]:
    """The names registered for a kind: the core's, the plug-ins', and those registered by hand in this process."""
    return catalog().names(kind)


def part(kind: str, name: str) -> Part:
    """Describe a part without importing it.

    Raises:
        UserError: no such part; the message holds the near misses.
    """
    found = catalog().parts.get((kind, name))
    if found is None:
        raise UserError(unknown(kind, name, names(kind)))
    return found


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such part: the near misses, and which plug-ins were left out, since it may be in one."""
    left_out = "".join(f"; a plug-in was left out: {line}" for line in catalog().broken)
    return f"unknown {kind} {name!r}{near_misses(name, known)}{left_out}"


def find(kind: str, name: str) -> Callable[..., Any]:
    """Import a part's file and return the class.

    Raises:
        UserError: no such part, or its file cannot be imported (with file and line).
    """
    if (kind, name) not in _registered:
        info = part(kind, name)
        try:
            importlib.import_module(info.module)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{_where(error, info)}: {type(error).__name__}: {error}") from error
        if (kind, name) not in _registered:
            raise UserError(f"{info.place}: importing {info.module} did not register the {kind} {name!r}")
    return _registered[kind, name]


def declarations(kind: str, name: str) -> dict[str, Any]:
    """What a part declares, without importing it.

    Raises:
        UserError: no such part, or it lacks a declaration that every part of its kind makes.
    """
    info = part(kind, name)
    if wrong := undeclared(info):
        raise UserError(f"the {kind} {name!r}, {wrong}; {advice(info)}")
    return info.declares


def check(kind: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check values against a part's knobs and fill in the defaults, without importing the part.

    Raises:
        UserError: an unknown part or knob, a value of the wrong type, or a part that lacks a declaration of its kind.
    """
    info = part(kind, name)
    declarations(kind, name)
    knobs = {knob.name: knob for knob in info.knobs}
    for key, value in values.items():
        if key not in knobs:
            hint = near_misses(key, knobs) if knobs else "; it has none"
            raise UserError(f"the {kind} {name!r} has no knob {key!r}{hint}")
        if not knobs[key].type.accepts(value):
            raise UserError(f"{kind}.{key}={_shown(value)}: expected {knobs[key].type.phrase}")
    # Copied, so that changing a list that was given does not change the default.
    return {knob.name: copy.deepcopy(values.get(knob.name, knob.default)) for knob in info.knobs}


def forget_changed() -> None:
    """Forget plug-ins whose files were written since they were imported: the next use of one imports it anew."""
    if forget_written():
        for key in [key for key, item in _registered.items() if item.__module__.startswith(f"{PACKAGE}.")]:
            del _registered[key]


def name_of(kind: str, item: object) -> str | None:
    """The name under which an instance's class is registered; None if it is not.

    A class of :mod:`attnx.accel` that is not registered stands for the class that it replaces, its base.
    """
    cls: Any = type(item)
    base = cls.__base__ if cls.__module__.startswith("attnx.accel.") else cls
    names = {known: name for (registered_kind, name), known in _registered.items() if registered_kind == kind}
    return names.get(cls) or names.get(base)


def spec(kind: str, choice: PartSpec) -> tuple[str, dict[str, Any]]:
    """Split a choice, ``"mlp"``, ``("mlp", {"depth": 2})`` or ``{"name": "mlp", "depth": 2}``, into name and knobs."""
    if isinstance(choice, str):
        return choice, {}
    if isinstance(choice, Mapping):
        values = dict(choice)
        if "name" not in values:
            raise UserError(f"the {kind} has no name; choose from {', '.join(names(kind))}")
        return str(values.pop("name")), values
    match choice:
        case (str(name), Mapping() as knobs):
            return name, dict(knobs)
    raise UserError(f'{kind}={choice!r}: expected a name, or a name with knobs, as in ("mlp", {{"depth": 2}})')


def build(kind: str, choice: PartSpec, /, **supplied: Any) -> Any:
    """Build a part from its name and knobs; of what is supplied it gets what its constructor asks for.

    Raises:
        UserError: as :func:`check` and :func:`find`, or the part itself refused its knobs.
    """
    name, values = spec(kind, choice)
    knobs = check(kind, name, values)
    info = part(kind, name)
    missing = [size for size in info.supplied if size not in supplied]
    if missing:
        raise UserError(f"the {kind} {name!r} asks for {', '.join(missing)}, which nothing supplies here")
    return find(kind, name)(**{size: supplied[size] for size in info.supplied}, **knobs)


def filled(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored configuration with the knobs it leaves out: those that came after it was written.

    Raises:
        UserError: it names a part or a knob that is not there any more.
    """
    found = dict(config)
    for kind in KINDS:
        if kind in SETS and kind in found:
            found[kind] = {name: check(kind, name, knobs or {}) for name, knobs in found[kind].items()}
        elif kind in found:
            name, knobs = spec(kind, found[kind])
            found[kind] = {"name": name, **check(kind, name, knobs)}
    return found


def _where(error: Exception, info: Part) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == info.file]
    return f"{info.file}:{frames[-1].lineno}" if frames else info.place


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)

"""Tries the plug-in parts of a configuration before training, and says which plug-in an exception came from."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.laws.check import first_failure
from attnx.registry.declarations import advice
from attnx.registry.source_scan import KINDS, SETS, catalog

Chosen = tuple[str, str, Mapping[str, Any]]


def check_plug_ins(config: Mapping[str, Any]) -> None:
    """Try each part of a configuration that is not the core's by the quick laws of its kind: some milliseconds each.

    Raises:
        UserError: a part breaks a law; the line names its file and line.
    """
    for kind, name, knobs in [*chosen_parts(config), *_plug_in_kernels()]:
        info = registry.part(kind, name)
        if info.origin != "core" and (failure := first_failure(kind, name, knobs)):
            raise UserError(f"{failure}; {advice(info)}")


def _plug_in_kernels() -> Iterator[Chosen]:
    """The kernels of plug-ins, which serve unasked; one that cannot be imported is left out where kernels are built."""
    for name in registry.names("kernel"):
        if registry.part("kernel", name).origin != "core":
            try:
                registry.find("kernel", name)
            except UserError:
                continue
            yield "kernel", name, {}


@functools.cache
def broken_plug_ins() -> dict[tuple[str, str], str]:
    """Every plug-in part that breaks a law of its kind or cannot be imported, by kind and name, and a line of why."""
    found = {}
    for part in catalog().parts.values():
        if part.origin != "core":
            try:
                line = first_failure(part.kind, part.name, {})
            except UserError as error:
                line = str(error)
            if line:
                found[part.kind, part.name] = line
    return found


def sound_names(kind: str) -> list[str]:
    """The names of a kind that can be composed with any others: all but those of :func:`broken_plug_ins`."""
    return [name for name in registry.names(kind) if (kind, name) not in broken_plug_ins()]


def chosen_parts(config: Mapping[str, Any]) -> Iterator[Chosen]:
    """Kind, name and knobs of every part that a configuration names, those in knobs of others included."""
    for kind in (kind for kind in KINDS if kind in config):
        nodes = config[kind].items() if kind in SETS else [registry.spec(kind, config[kind])]
        for name, knobs in nodes:
            yield kind, name, knobs or {}
            yield from _in_knobs(knobs or {})


def _in_knobs(knobs: Mapping[str, Any]) -> Iterator[Chosen]:
    """Parts named by knobs, such as ``cross_scorer`` or ``tokenizer``: the end of the knob's name is the kind."""
    for knob, value in knobs.items():
        kind = next((kind for kind in KINDS if knob == kind or knob.endswith(f"_{kind}")), None)
        if kind is not None and isinstance(value, str | Mapping):
            name, inner = registry.spec(kind, value)
            if name in registry.names(kind):
                yield kind, name, inner


@contextmanager
def plug_ins_named() -> Iterator[None]:
    """Turn an exception that a plug-in's code raised into one line that names the part, its file and line.

    Raises:
        UserError: that line.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if not (line := plug_in_of(error)):
            raise
        raise UserError(line) from error


def plug_in_of(error: BaseException) -> str:
    """Which plug-in part an exception came through last, where in its file, and what it says; "" if through none."""
    others = [part for part in catalog().parts.values() if part.origin != "core"]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        above = [part for part in others if str(part.file) == frame.filename and part.line <= (frame.lineno or 0)]
        if above:
            part = max(above, key=lambda part: part.line)
            said = next(iter(str(error).strip().splitlines()), "")
            place = f"{frame.filename}:{frame.lineno} ({frame.name})"
            return f"the {part.kind} {part.name!r}, {place}: {type(error).__name__}: {said}; {advice(part)}"
    return ""

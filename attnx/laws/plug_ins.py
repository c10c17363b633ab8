"""Check the plug-in parts of a configuration before training."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.laws.check import first_failure
from attnx.registry.part import KINDS, MULTI_SELECT_KINDS
from attnx.registry.plugin_errors import advice
from attnx.registry.source_scan import catalog

PartWithOptions = tuple[str, str, Mapping[str, Any]]


def check_plug_ins(config: Mapping[str, Any]) -> None:
    """Check every plug-in part of a configuration by the quick laws of its kind: some milliseconds each.

    Raises:
        UserError: a part breaks a law; the message has its file and line.
    """
    for kind, name, options in chosen_parts(config):
        info = registry.describe(kind, name)
        if info.origin != "core" and (failure := first_failure(kind, name, options)):
            raise UserError(f"{failure}; {advice(info)}")


@functools.cache
def broken_plug_ins() -> dict[tuple[str, str], str]:
    """The failures of plug-in parts that break a law or cannot be imported, by kind and name."""
    failures = {}
    for part in catalog().parts.values():
        if part.origin != "core":
            try:
                line = first_failure(part.kind, part.name, {})
            except UserError as error:
                line = str(error)
            if line:
                failures[part.kind, part.name] = line
    return failures


def sound_names(kind: str) -> list[str]:
    """The names of a kind without those of :func:`broken_plug_ins`."""
    return [name for name in registry.names(kind) if (kind, name) not in broken_plug_ins()]


def chosen_parts(config: Mapping[str, Any]) -> Iterator[PartWithOptions]:
    """Kind, name and options of every part in a configuration, including parts in options of parts."""
    for kind in (kind for kind in KINDS if kind in config):
        nodes = config[kind].items() if kind in MULTI_SELECT_KINDS else [registry.parse_spec(kind, config[kind])]
        for name, options in nodes:
            yield kind, name, options or {}
            yield from _in_options(options or {})


def _in_options(options: Mapping[str, Any]) -> Iterator[PartWithOptions]:
    """Parts in options such as ``cross_scorer`` or ``tokenizer``: the option's name ends with the kind."""
    for option, value in options.items():
        kind = next((kind for kind in KINDS if option == kind or option.endswith(f"_{kind}")), None)
        if kind is not None and isinstance(value, str | Mapping):
            name, inner = registry.parse_spec(kind, value)
            if name in registry.names(kind):
                yield kind, name, inner

"""The configuration groups, their choices and their defaults; no part is imported."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from attnx import registry
from attnx.config.view import choice_text, dotted_keys, names_text, value_text
from attnx.errors import UserError, suggest
from attnx.registry.option_types import parse_type
from attnx.registry.part import KINDS, MULTI_SELECT_KINDS, Part
from attnx.registry.synonyms import known_as
from attnx.runs.layout import check_name

# Kinds that are chosen by a configuration group. A metric goes with its task; a tokenizer is chosen by an option of a
# task's, a bias by one of attention's, a mixer by one of a model's.
PART_GROUPS = tuple(kind for kind in KINDS if kind not in ("metric", "tokenizer", "bias", "mixer"))
# Groups of whole configurations, which have no node of their own.
PRESETS = ("experiment", "recipe")
GROUPS = (*PART_GROUPS, *PRESETS)
# Types of the top-level values that are no part.
SCALARS = {
    "seed": "NonNegativeInt",
    "name": "str | None",
    "folder": "str | None",
    "budget": "Literal['steps', 'time', 'flops']",
    "match": "Literal['parameters', 'flops', 'state'] | None",
    "accel": "Literal['auto', 'off']",
    "init_from": "str | None",
}
# Parts of a model that can be placed on a device: `placement.attention=cuda:1`.
PLACED = ("encoder", "attention", "decoder")
# Options of the launchers and of the sweepers, with their types; what has none is checked by what reads it.
HYDRA_OPTIONS: dict[str, dict[str, str | None]] = {
    "launcher": {
        "cluster": "Literal['slurm'] | None",
        "detach": "bool",
        "name": "str",
        **dict.fromkeys(["partition", "account", "qos", "constraint"], "str | None"),
        **dict.fromkeys(
            ["timeout_min", "nodes", "tasks_per_node", "cpus_per_task", "array_parallelism"], "PositiveInt"
        ),
        "gpus_per_node": "PositiveInt | str | None",
        "mem_gb": "PositiveFloat | None",
        **dict.fromkeys(["max_num_timeout", "signal_delay_s"], "NonNegativeInt"),
        **dict.fromkeys(["additional_parameters", "setup"]),
    },
    "sweeper": {"n_trials": "PositiveInt", "seed": "NonNegativeInt", **dict.fromkeys(["params", "sampler", "pruner"])},
}
DEFAULTS = {"seed": 1, "budget": "steps", "accel": "auto"}
LARGEST_SEED = 2**32 - 1


def conf_folder() -> Path:
    """The configuration folder: inside the package when installed, beside it in the repository."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def group_choices(group: str) -> list[str]:
    """The choices of a group: its parts, and files of options of one part, such as ``trainer=ddp``."""
    files = sorted(file.stem for file in (conf_folder() / group).glob("*.yaml"))
    return files if group in PRESETS else [*registry.names(group), *files]


def default_parts() -> Mapping[str, str]:
    """The part of each kind in the default composition, as text: ``{"scorer": "additive", ...}``."""
    return listed_parts("config")


@functools.cache  # YAML is slow, and the same few files are asked for again and again
def listed_parts(name: str) -> Mapping[str, str]:
    """The part of each kind in the list of defaults of a configuration file, such as ``experiment/parity``, as text."""
    content = yaml.safe_load((conf_folder() / f"{name}.yaml").read_text(encoding="utf-8"))
    entries = [entry for entry in content.get("defaults", []) if isinstance(entry, dict)]
    parts = {key.removeprefix("override /"): part for entry in entries for key, part in entry.items()}
    return {
        kind: part if isinstance(part, str) else names_text(part) for kind, part in parts.items() if kind in PART_GROUPS
    }


def parts_by_option(kind: str) -> dict[str, list[str]]:
    """The parts that have an option, by the option's name."""
    parts: dict[str, list[str]] = {}
    for name in registry.names(kind):
        for option in registry.describe(kind, name).options:
            parts.setdefault(option.name, []).append(name)
    return parts


def check_scalar(key: str, value: Any) -> Any:
    """Check a top-level value that is no part; return it or its default.

    Raises:
        UserError: it has the wrong type or is out of range.
    """
    if value is None and key in DEFAULTS:
        return DEFAULTS[key]
    if type(value) in (int, float) and "str" in SCALARS[key]:
        quoted = f"'{key}=\"{value}\"'"
        raise UserError(f"{key}={value} is a number; quote it to use it as a {key}: {quoted}")
    check_typed(key, SCALARS[key], value)
    if key == "seed" and value > LARGEST_SEED:
        raise UserError(f"seed={value}: expected a whole number up to {LARGEST_SEED}, the largest that NumPy takes")
    if key == "name" and value is not None:
        check_name(value)
    return value


def check_typed(key: str, written_type: str, value: Any) -> None:
    """Refuse a value that is not of a type, which is written as in Python; raises UserError."""
    accepted = parse_type(ast.parse(written_type, mode="eval").body)
    if not accepted.accepts(value):
        raise UserError(f"{key}={value_text(value)}: expected {accepted.phrase}")


def check_placement(placement: Any) -> dict[str, Any]:
    """The devices of model parts, by part; empty if none is placed.

    Raises:
        UserError: an unknown part, or a value that is no device.
    """
    if placement is not None and not isinstance(placement, dict):
        raise UserError(f"placement={placement}: name a device for a part: placement.attention=cuda:1")
    for part, device in (placement or {}).items():
        if part not in PLACED:
            raise UserError(f"placement.{part}: no such part{suggest(part, PLACED)}")
        if not isinstance(device, str | None):
            raise UserError(f"placement.{part}={device}: expected the name of a device, such as cuda:1")
    devices = {part: device for part, device in (placement or {}).items() if device is not None}
    return {"placement": devices} if devices else {}


def option_key(part: Part, name: str) -> str:
    """An option's key on the command line; its name alone if no word of the command line chooses such a part."""
    if part.kind not in PART_GROUPS:
        return name
    return f"{part.kind}.{part.name}.{name}" if part.kind in MULTI_SELECT_KINDS else f"{part.kind}.{name}"


def option_keys(name: str) -> list[str]:
    """The keys of the options with a name, ``optimizer.lr``, also by what others call it."""
    kinds = [kind for kind in PART_GROUPS if kind not in MULTI_SELECT_KINDS]
    keys = [f"{kind}.{name}" for kind in kinds if name in parts_by_option(kind)]
    return keys or [target for target in known_as(name) if "." in target and "=" not in target]


def changed_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Parts other than the default ones, options other than their part's defaults, and other values, by dotted keys.

    A value without a default, such as a name, is changed if it is set.

    Raises:
        UserError: it names a part that no longer exists.
    """
    parts = {
        kind: {name: {} for name in config[kind]} if kind in MULTI_SELECT_KINDS else {"name": config[kind]["name"]}
        for kind in PART_GROUPS
        if kind in config
    }
    defaults = {**dotted_keys(registry.with_defaults(parts)), **default_parts(), **DEFAULTS}
    return {key: value for key, value in dotted_keys(config).items() if value != defaults.get(key)}


def default_choice(key: str) -> str:
    """The value that a dotted key has by default, as reports compare it; empty if it has none.

    >>> default_choice("scorer"), default_choice("scope.window"), default_choice("seed")
    ('additive', '', '1')
    """
    parts = default_parts()
    chosen = {kind: {"name": name} for kind, name in parts.items() if kind not in MULTI_SELECT_KINDS}
    return choice_text({**dotted_keys(registry.with_defaults(chosen)), **parts, **DEFAULTS}.get(key, ""))

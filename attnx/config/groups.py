"""What can be chosen on the command line, and from what: no part is imported to know it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import yaml

from attnx import registry
from attnx.config.view import names_text
from attnx.errors import UserError, near_misses
from attnx.registry.param_types import parse_type
from attnx.registry.source_scan import KINDS, SETS
from attnx.runs.naming import check_name

# Kinds that are chosen by a configuration group. A metric goes with its task; a tokenizer is chosen by a knob of a
# task's, a kernel by what it serves.
CHOSEN = tuple(kind for kind in KINDS if kind not in ("kernel", "metric", "tokenizer"))
# Groups of whole configurations: they leave no node of their own behind.
PRESETS = ("experiment", "recipe")
GROUPS = (*CHOSEN, *PRESETS)
# Top-level values that are no part, and what each accepts.
SCALARS = {
    "seed": "Natural",
    "name": "str | None",
    "folder": "str | None",
    "profile": "bool",
    "budget": "Literal['steps', 'time']",
    "accel": "Literal['auto', 'off']",
}
# Knobs by the names that other programs give them.
KNOBS_ELSEWHERE = {"batch": "batch_size", "epochs": "max_epochs", "learning_rate": "lr", "steps": "max_steps"}
# Parts of a model that can be put on devices of their own: `placement.attention=cuda:1`.
PLACED = ("encoder", "attention", "decoder")
# Of those that must be something.
DEFAULTS = {"seed": 1, "profile": False, "budget": "steps", "accel": "auto"}
LARGEST_SEED = 2**32 - 1


def conf_folder() -> Path:
    """The configuration folder: inside the package when installed, beside it in the repository."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def options(group: str) -> list[str]:
    """What a group can be: its parts, and files of knobs of one of them, such as ``trainer=ddp``."""
    files = sorted(file.stem for file in (conf_folder() / group).glob("*.yaml"))
    return files if group in PRESETS else [*registry.names(group), *files]


def default_parts() -> dict[str, str]:
    """The part of each kind in the default composition, as text: ``{"scorer": "additive", ...}``."""
    listed = yaml.safe_load((conf_folder() / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    chosen = {kind: part for entry in listed if isinstance(entry, dict) for kind, part in entry.items()}
    return {
        kind: part if isinstance(part, str) else names_text(part) for kind, part in chosen.items() if kind in CHOSEN
    }


def owners(kind: str) -> dict[str, list[str]]:
    """Which parts have a knob, by the knob's name."""
    found: dict[str, list[str]] = {}
    for name in registry.names(kind):
        for knob in registry.part(kind, name).knobs:
            found.setdefault(knob.name, []).append(name)
    return found


def check_scalar(key: str, value: Any) -> Any:
    """Check a top-level value that is no part, and fill in its default.

    Raises:
        UserError: it is of the wrong type, or no name of a folder.
    """
    accepted = parse_type(ast.parse(SCALARS[key], mode="eval").body)
    if value is None and key in DEFAULTS:
        return DEFAULTS[key]
    if not accepted.accepts(value):
        raise UserError(f"{key}={value}: expected {accepted.phrase}")
    if key == "seed" and value > LARGEST_SEED:
        raise UserError(f"seed={value}: expected a whole number up to {LARGEST_SEED}, the largest that NumPy takes")
    if key == "name" and value is not None:
        check_name(value)
    return value


def check_placement(placement: Any) -> dict[str, Any]:
    """Which part goes on which device, if any has one of its own.

    Raises:
        UserError: there is no such part, or what stands there names no device.
    """
    if placement is not None and not isinstance(placement, dict):
        raise UserError(f"placement={placement}: name a device for a part: placement.attention=cuda:1")
    for part, device in (placement or {}).items():
        if part not in PLACED:
            raise UserError(f"placement.{part}: no such part{near_misses(part, PLACED)}")
        if not isinstance(device, str | None):
            raise UserError(f"placement.{part}={device}: expected the name of a device, such as cuda:1")
    named = {part: device for part, device in (placement or {}).items() if device is not None}
    return {"placement": named} if named else {}


def knob_keys(name: str) -> list[str]:
    """The keys of the knobs of a name, as they are written: ``optimizer.lr``."""
    name = KNOBS_ELSEWHERE.get(name, name)
    return [f"{kind}.{name}" for kind in CHOSEN if kind not in SETS and name in owners(kind)]

"""What can be chosen on the command line, and from what: no part is imported to know it."""

from __future__ import annotations

from pathlib import Path

from attnx import registry
from attnx.catalogue import KINDS

# Kinds that are chosen by a configuration group. A composition goes with its model, a metric with its task; a tokeniser
# is chosen by a knob of a task's, a kernel by what it serves.
CHOSEN = tuple(kind for kind in KINDS if kind not in ("composition", "kernel", "metric", "tokeniser"))
# Groups of whole configurations: they leave no node of their own behind.
PRESETS = ("experiment", "recipe")
GROUPS = (*CHOSEN, *PRESETS)
# Top-level values that are no part, and what each accepts.
SCALARS = {"seed": "Natural", "name": "str | None", "folder": "str | None", "profile": "bool"}
# Parts of a model that can be put on devices of their own: `placement.attention=cuda:1`.
PLACED = ("encoder", "attention", "decoder")
# Of those that must be something.
DEFAULTS = {"seed": 1, "profile": False}


def conf_folder() -> Path:
    """The configuration folder: inside the package when installed, beside it in the repository."""
    package = Path(__file__).parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def options(group: str) -> list[str]:
    """What a group can be: its parts, and files of knobs of one of them, such as ``trainer=ddp``."""
    files = sorted(file.stem for file in (conf_folder() / group).glob("*.yaml"))
    return files if group in PRESETS else [*registry.names(group), *files]


def owners(kind: str) -> dict[str, list[str]]:
    """Which parts have a knob, by the knob's name."""
    found: dict[str, list[str]] = {}
    for name in registry.names(kind):
        for knob in registry.part(kind, name).knobs:
            found.setdefault(knob.name, []).append(name)
    return found

"""Where runs and sweeps lie, and which names their folders can have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.atomic_files import PARTIAL
from attnx.runs.layout import CHECKPOINTS, CONFIG, LOG, PLUGINS, RUN

SWEEPS = Path("multirun")
RUNS = SWEEPS / "runs"
# Bytes of a name. File systems take 255, encrypted ones 143, and a sweep that is put aside gets a number behind it.
LONGEST = 128
# What a folder may hold that a run begins in: the log of a sweep's job, and what a run left that was killed at once.
FREE = {LOG, CONFIG, f"{RUN}{PARTIAL}", CHECKPOINTS, PLUGINS}


def check_name(name: str) -> None:
    """See that ``name=`` is one plain path component, which names a folder in ``multirun/`` and nothing outside it.

    Raises:
        UserError: it is not, with what is wrong.
    """
    if problem := _problem(name):
        shown = name if name.isprintable() else repr(name)
        raise UserError(f"name={shown}: {problem}; a name is that of one folder, such as name=scorers")


def _problem(name: str) -> str:
    if not name:
        return "is empty, as an unset variable leaves it"
    if "/" in name or "\\" in name:
        return "holds a separator of paths"
    if not name.isprintable():
        return "holds a sign that cannot be printed"
    if name != name.strip() or name.startswith("."):
        return "begins with a dot, or begins or ends with a space"
    if len(name.encode()) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    if name.casefold() == RUNS.name:
        return f"{RUNS} is where single runs lie"
    return ""


def refuse_link(folder: Path) -> None:
    """See that the folder of a name is no link: what it leads to may lie anywhere.

    Raises:
        UserError: it is one.
    """
    if folder.is_symlink():
        raise UserError(f"{folder}: is a link to {folder.readlink()}; choose another name=..., or remove the link")


def chosen_folder(config: Mapping[str, Any]) -> Path | None:
    """The folder that ``folder=`` or ``name=`` asks for a run, which may begin in it; None if neither is said.

    Raises:
        UserError: the folder holds something already, or lies in that of another run.
    """
    if not config["folder"] and not config["name"]:
        return None
    folder, knob = Path(config["folder"] or RUNS / config["name"]), "folder" if config["folder"] else "name"
    if knob == "name":
        check_name(config["name"])
        refuse_link(folder)
    if folder.exists() and not (folder.is_dir() and _is_free(folder)):
        raise UserError(f"{knob}={config[knob]}: {_taken(folder, knob)}")
    if around := [above for above in folder.absolute().parents if (above / RUN).is_file()]:
        raise UserError(f"folder={folder}: lies in the folder of another run, {around[0]}; choose one outside it")
    return folder


def _taken(folder: Path, knob: str) -> str:
    place = "it" if knob == "folder" else str(folder)
    return f"{place} is not empty; choose another, or `attnx resume {folder}`"


def _is_free(folder: Path) -> bool:
    return {file.name for file in folder.iterdir()} <= FREE and not [*folder.glob(f"{CHECKPOINTS}/*")]

"""Paths as users write them: a home folder and environment variables to fill in, and the two homes of data sets."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from attnx.data.downloads.recipe import FOLDER, read_recipe
from attnx.errors import UserError

VARIABLE = "ATTNX_DATA"
DEFAULT_FOLDER = "data"
IN_DATA = re.compile(rf"\$(?:{VARIABLE}|\{{{VARIABLE}\}})/(.+)")


def data_folders() -> list[Path]:
    """Where data sets are looked for, in this order: ``$ATTNX_DATA`` if it is set, then ``data`` in the current folder.

    New ones are written to the first.
    """
    named = [os.environ.get(VARIABLE, ""), DEFAULT_FOLDER]
    return list(dict.fromkeys(Path(folder).expanduser() for folder in named if folder))


def locate(path: str, folders: Sequence[Path]) -> Path:
    """The place of a file, a folder or a pattern: in the first folder that has it, else in the first folder."""
    places = [folder / path for folder in folders]
    return next((place for place in places if place.exists() or glob(str(place))), places[0])


def expand(knob: str, path: str) -> Path:
    """Fill in ``~`` and environment variables; ``$ATTNX_DATA`` is whichever of the data folders has what is named.

    Args:
        knob: what named the path, for the message.
        path: a file, a folder, or a pattern of files, which need not exist.

    Raises:
        UserError: a variable is not set.

    >>> expand("task.store", "corpora/store").name
    'store'
    """
    if in_data := IN_DATA.fullmatch(path):
        return locate(in_data[1], data_folders())
    filled = os.path.expandvars(os.path.expanduser(path))
    unset = re.search(r"\$\{?(\w+)", filled)
    if unset:
        raise UserError(f"{knob}={path}: the environment variable {unset[1]} is not set; set it to the data's folder")
    return Path(filled)


def fill_in(knob: str, path: str) -> Path:
    """As :func:`expand`, of data to read.

    Raises:
        UserError: a variable is not set, or no data folder has what is named; says how to get a public data set.

    >>> fill_in("task.train", "words.tsv").name
    'words.tsv'
    """
    place = expand(knob, path)
    if (in_data := IN_DATA.fullmatch(path)) and not (place.exists() or glob(str(place))):
        folders = " nor in ".join(map(str, data_folders()))
        unset = "" if os.environ.get(VARIABLE) else f" (${VARIABLE} is not set)"
        raise UserError(f"{knob}={path}: not in {folders}{unset}{_how_to_get(in_data[1])}")
    return place


def _how_to_get(path: str) -> str:
    """The command that fetches a file or folder of a public data set; nothing for any other."""
    name = path.partition("/")[0]
    recipe = FOLDER / f"{name}.yaml"
    if not recipe.is_file() or not any(f"{file.path}/".startswith(f"{path}/") for file in read_recipe(recipe).files):
        return ""
    return f"; fetch it with: attnx data get {name}"

"""Reads what a run folder says of itself: what the run was, how it was configured, and what came out of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from attnx.errors import UserError
from attnx.run_format import CONFIG, FORMAT, RESULTS, RUN

# Many times as fast as Python's, where it was built.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Run(NamedTuple):
    """One run folder: ``info`` is run.json; ``config`` and ``results`` are empty if their file is missing."""

    path: Path
    info: dict[str, Any]
    config: dict[str, Any]
    results: dict[str, Any]

    @property
    def name(self) -> str:
        """The name the run was given, else that of its folder."""
        return str(self.info.get("name") or self.path.resolve().name)


def read_run(folder: Path | str) -> Run:
    """Read a run folder.

    Raises:
        UserError: not a folder, not a run folder, an unreadable file, or a format too new.
    """
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"{path}: not a folder")
    return Run(path, read_info(path), mapping(path / CONFIG), mapping(path / RESULTS))


def read_info(path: Path) -> dict[str, Any]:
    """Read run.json alone.

    Raises:
        UserError: there is none, it cannot be read, or its format is too new.
    """
    if not (path / RUN).is_file():
        raise UserError(f"{path}: not a run folder (it has no {RUN})")
    info = mapping(path / RUN)
    _check_format(path / RUN, info.get("format"))
    return info


def _check_format(path: Path, number: object) -> None:
    if type(number) is not int or number < 1:
        raise UserError(f"{path}: format must be a whole number from 1 to {FORMAT}, not {number!r}")
    if number > FORMAT:
        raise UserError(f"{path}: run format {number} is newer than the {FORMAT} known here; update attnx")


def mapping(path: Path) -> dict[str, Any]:
    """The mapping in a JSON or YAML file; empty if there is no file."""
    if not path.is_file():
        return {}
    text = read_text(path)
    try:
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text) or {}
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", "unreadable")
        raise UserError(f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {reason}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}:1: expected names with values, found a {type(content).__name__}")
    return content


def refuse_links(folder: Path) -> None:
    """Refuse a folder that is to be written into, if what is written could land outside it.

    Raises:
        UserError: it holds a link that leads out of it.
    """
    home = folder.resolve()
    for above, folders, files in os.walk(home):
        for path in (Path(above, name) for name in (*folders, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(home):
                raise UserError(
                    f"{folder / path.relative_to(home)}: is a link that leads out of {folder}, and nothing is written "
                    f"there; put what it leads to in its place"
                )


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        UserError: it is not UTF-8, with the line.
    """
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 text") from error

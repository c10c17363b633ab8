"""Paths as users write them, with ``~`` and environment variables; the folders of data sets; the files of a task."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import Any, Final

from attnx import registry
from attnx.errors import UserError

DATA_VARIABLE = "ATTNX_DATA"
DEFAULT_FOLDER = "data"
CACHE_VARIABLE = "ATTNX_CACHE"
IN_DATA_FOLDER = re.compile(rf"\$(?:{DATA_VARIABLE}|\{{{DATA_VARIABLE}\}})/(.+)")
# Names of a folder that are compared; a folder may have millions.
MAX_NAMES: Final = 10_000
MIN_SIMILARITY: Final = 0.7


def data_folders() -> list[Path]:
    """Return the folders of data sets in order: ``$ATTNX_DATA`` if it is set, then ``data`` in the current folder.

    New data sets are written to the first.
    """
    folders = [os.environ.get(DATA_VARIABLE, ""), DEFAULT_FOLDER]
    return list(dict.fromkeys(Path(folder).expanduser() for folder in folders if folder))


def cache_folder(name: str) -> Path:
    """Return the folder ``name`` of the cache: in ``$ATTNX_CACHE`` if it is set, else in ``~/.cache/attnx``."""
    try:
        return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/attnx").expanduser() / name
    except RuntimeError:
        raise UserError(f"this user has no home for a cache; set {CACHE_VARIABLE} to a folder") from None


def find_in_folders(path: str, folders: Sequence[Path]) -> Path:
    """Return the path of a file, folder or pattern in the first folder that has it, else in the first folder."""
    candidates = [folder / path for folder in folders]
    return next((candidate for candidate in candidates if _exists(candidate)), candidates[0])


def _exists(path: Path) -> bool:
    return os.path.exists(path) or bool(glob(str(path)))  # False for a name that is too long


def expand_path(option: str, path: str) -> Path:
    """Expand ``~`` and environment variables; ``$ATTNX_DATA`` is the first data folder that has the path.

    The path, the value of ``option``, is a file, a folder, or a pattern of files, which need not exist. A variable that
    is not set is a UserError.
    """
    if not path:
        raise UserError(f"{option}= is empty, perhaps from an unset variable; name a file or a folder")
    if in_data := IN_DATA_FOLDER.fullmatch(path):
        return find_in_folders(in_data[1], data_folders())
    expanded = os.path.expandvars(os.path.expanduser(path))
    unset = re.search(r"\$\{?(\w+)", expanded)
    if unset:
        raise UserError(f"{option}={path}: the environment variable {unset[1]} is not set; set it first")
    return Path(expanded)


def resolve_data_path(option: str, path: str) -> Path:
    """Expand the path of data to read; a UserError if there is none says how to download a public set."""
    expanded = expand_path(option, path)
    if (in_data := IN_DATA_FOLDER.fullmatch(path)) and not _exists(expanded):
        from attnx.data.downloads import SPEC_FOLDER, read_dataset_spec  # late: it imports what downloads

        folders = " nor in ".join(map(str, data_folders()))
        unset = "" if os.environ.get(DATA_VARIABLE) else f" (${DATA_VARIABLE} is not set)"
        name = in_data[1].partition("/")[0]
        spec = SPEC_FOLDER / f"{name}.yaml"
        public_files = [f"{file.path}/" for file in read_dataset_spec(spec).files] if spec.is_file() else []
        is_public = any(file.startswith(f"{in_data[1]}/") for file in public_files)
        hint = f"; fetch it with: attnx data get {name}" if is_public else ""
        raise UserError(f"{option}={path}: not in {folders}{unset}{hint}")
    return expanded


def check_task_files(task: Mapping[str, Any]) -> None:
    """Check that the files and folders in a task's options exist; patterns are left to the task.

    A task declares the options that name files as ``data_files``. A missing file is a UserError with similar names.
    """
    for option in registry.describe("task", task["name"]).declarations.get("data_files", ()):
        value = task.get(option)
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str):
                path = resolve_data_path(f"task.{option}", name)
                if not os.path.exists(path) and not has_magic(path.name):
                    raise UserError(f"task.{option}: {missing_file_message(path)}")


def missing_file_message(path: Path) -> str:
    """Say that a file is missing, with up to three similar names in its folder; or which folder is missing.

    Without a similar name a relative path is perhaps relative to another folder than the current one, which is named.
    """
    folder, here = path.parent, "" if path.is_absolute() else f" in {Path.cwd()}"
    if os.path.isdir(folder):
        return f"{path}: no such file{_suggest_in(folder, path.name) or here}"
    parent = next(parent for parent in (*folder.parents, Path()) if os.path.isdir(parent))
    hint = _suggest_in(parent, folder.relative_to(parent).parts[0]) if folder.is_relative_to(parent) else ""
    return f"{path}: no such file; there is no folder {folder}{hint or here}"


def _suggest_in(folder: Path, name: str) -> str:
    """Up to three names in a folder that are similar, as a question; empty if there are none."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_NAMES) if entry.name != name]  # itself, a broken link
    except OSError:  # no permission
        return ""
    close = difflib.get_close_matches(name, sorted(names), n=3, cutoff=MIN_SIMILARITY)
    return f"; did you mean {' or '.join(str(folder / match) for match in close)}?" if close else ""

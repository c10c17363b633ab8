"""Reads and writes run.json, with its format and types checked; the status of a run; and reads config.yaml."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json, read_mapping
from attnx.registry.part import KINDS
from attnx.runs.layout import FORMAT, RUN_JSON


class RunStatus(StrEnum):
    """The status of a run; any value that is none of these is ``unknown``.

    ``waiting`` before it is started; ``interrupted`` if it can be resumed; ``pruned`` if a search ended it because
    other jobs were clearly better; ``stopped`` if its files say ``running``, but its process was killed, or they have
    not changed for long; ``without results`` if it finished but results.json is missing; ``unreadable`` if a file of it
    cannot be read.
    """

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    PRUNED = "pruned"
    STOPPED = "stopped"
    WITHOUT_RESULTS = "without results"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> RunStatus:
        return cls.UNKNOWN


# Statuses of started runs.
STARTED = (RunStatus.RUNNING, RunStatus.FINISHED, RunStatus.FAILED, RunStatus.INTERRUPTED, RunStatus.PRUNED)
# Statuses of runs that may still finish.
OPEN_STATUSES = (RunStatus.WAITING, RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.STOPPED)
# Statuses that a resumed sweep skips.
DONE_STATUSES = (RunStatus.FINISHED, RunStatus.PRUNED)
# Statuses in sweep.json.
JOB_STATUSES = (RunStatus.WAITING, *STARTED)
# Statuses that `attnx runs` filters by.
LISTED_STATUSES = (*STARTED, RunStatus.STOPPED, RunStatus.UNKNOWN)


# Types of the values in run.json, and how a message names them.
INFO_TYPES: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(("name", "status", "created", "monitor", "error", "data", "budget", "machine"), (str, "a text")),
    **dict.fromkeys(("fingerprint", "valid_fingerprint", "test_fingerprint"), (str, "a text")),
    **dict.fromkeys(("overrides", "notes", "deleted"), (list, "a list of texts")),
    **dict.fromkeys(("versions", "git", "uploads"), (dict, "names with values")),
    "steps": (int, "a whole number"),
    "maximize": (bool, "true or false"),
}


def read_info(folder: Path) -> dict[str, Any]:
    """The content of run.json.

    Raises:
        UserError: the file is missing or cannot be read, a value has the wrong type, or the format is newer.
    """
    file = folder / RUN_JSON
    if not file.is_file():
        raise UserError(f"{folder}: not a run folder (it has no {RUN_JSON})")
    info = read_mapping(file)
    check_format(file, info.get("format"))
    for name, (kind, phrase) in INFO_TYPES.items():
        value = info.get(name)
        is_typed = value is None or isinstance(value, kind)
        if not is_typed or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            raise UserError(f"{file}: {name}: expected {phrase}, found {reprlib.repr(value)}")
    return info


def update_info(folder: Path, **facts: Any) -> None:
    """Replace or add values in run.json, which must exist."""
    write_json(folder / RUN_JSON, {**read_json(folder / RUN_JSON), **facts})


def check_format(file: Path, number: object) -> None:
    """Refuse a format number that is newer, or is not a number."""
    if type(number) is not int or number < 1:
        raise UserError(f"{file}: format must be a whole number from 1 to {FORMAT}, not {number!r}")
    if number > FORMAT:
        raise UserError(f"{file}: format {number} is newer than the {FORMAT} known here; update attnx")


def parse_iso_time(text: str) -> datetime | None:
    """A time in ISO 8601, to compare with those of other zones; None if the text is none."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def plugin_digests(info: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of each plug-in file that a run used, from its run.json."""
    return {path: str(digest) for path, digest in _plugin_section(info, "files").items()}


def plugin_records(info: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, str]]:
    """The ``origin`` and the short ``code`` digest of each plug-in part of a run, by kind and name."""
    parts = {}
    for key, facts in _plugin_section(info, "parts").items():
        kind, _, name = key.partition("=")
        if isinstance(facts, Mapping):
            parts[kind, name] = {str(key): str(value) for key, value in facts.items()}
    return parts


def _plugin_section(info: Mapping[str, Any], name: str) -> dict[str, Any]:
    plugins = info.get("plugins")
    section = plugins.get(name) if isinstance(plugins, Mapping) else None
    return {str(key): value for key, value in section.items()} if isinstance(section, Mapping) else {}


def read_config(file: Path) -> dict[str, Any]:
    """Read config.yaml; empty without the file.

    Raises:
        UserError: it cannot be read, the seed is no whole number, or a part in it is a number or a word.
    """
    config = read_mapping(file)
    if type(config.get("seed", 0)) is not int:
        raise UserError(f"{file}: seed={config['seed']}: expected a whole number")
    for kind in KINDS:
        if isinstance(config.get(kind), str | int | float):
            raise UserError(f"{file}: {kind}: expected a name and options, found {config[kind]!r}")
    return config

"""Reads what a run folder says of itself: what the run was, how it was configured, and what came out of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import LARGEST, read_json, read_yaml
from attnx.runs.layout import BASELINES, CONFIG, FORMAT, INTERVALS, RESULTS, RUN, SIGNATURES, WANDB

# What run.json says, where it says anything, and how that reads in a message.
TEXT: Final = (str, "a text")
TEXTS: Final = (list, "a list of texts")
NUMBER: Final = (int, "a whole number")
FACTS: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(("name", "status", "created", "monitor", "fingerprint", "error", "data", "budget"), TEXT),
    **dict.fromkeys(("overrides", "notes", "deleted"), TEXTS),
    **dict.fromkeys(("versions", "git"), (dict, "names with values")),
    "steps": NUMBER,
    "maximize": (bool, "true or false"),
}


class Interval(NamedTuple):
    """Between which two numbers a measure lies with a confidence of 95 %."""

    low: float
    high: float


class BaselineDifference(NamedTuple):
    """A measure of a run minus a baseline's on the same examples, and its 95 % interval."""

    difference: float
    low: float
    high: float


class Measured(NamedTuple):
    """What results.json holds, as the attributes of :class:`Run` say."""

    results: dict[str, Any]
    intervals: Mapping[str, Interval]
    baselines: Mapping[str, Mapping[str, BaselineDifference]]
    signatures: Mapping[str, str]


class Run(NamedTuple):
    """One run folder; what its file is missing for is empty.

    Attributes:
        path: of the folder.
        info: run.json.
        config: config.yaml.
        results: the numbers of results.json; None for what could not be measured.
        intervals: the 95 % interval, low and high, of the measures that have one.
        baselines: by the name of a baseline and of a measure how much the run differs from it.
        signatures: what exactly was computed, by the names of metrics that have a signature (BLEU, chrF, TER).
    """

    path: Path
    info: dict[str, Any]
    config: dict[str, Any]
    results: dict[str, Any]
    intervals: Mapping[str, Interval] = MappingProxyType({})
    baselines: Mapping[str, Mapping[str, BaselineDifference]] = MappingProxyType({})
    signatures: Mapping[str, str] = MappingProxyType({})

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
    return Run(path, read_info(path), mapping(path / CONFIG), *read_measured(path))


def read_info(path: Path) -> dict[str, Any]:
    """Read run.json alone.

    Raises:
        UserError: there is none, it cannot be read, or its format is too new.
    """
    if not (path / RUN).is_file():
        raise UserError(f"{path}: not a run folder (it has no {RUN})")
    info = mapping(path / RUN)
    _check_format(path / RUN, info.get("format"))
    _check_facts(path / RUN, info)
    return info


def read_results(path: Path) -> dict[str, Any]:
    """Read the numbers of results.json alone; empty if there is none.

    Raises:
        UserError: it cannot be read, or holds what it should not.
    """
    return read_measured(path).results


def read_measured(path: Path) -> Measured:
    """Read results.json; empty if there is none.

    Raises:
        UserError: it cannot be read, or holds what it should not.
    """
    file = path / RESULTS
    results = mapping(file)
    intervals, baselines, signatures = (_section(file, results, name) for name in (INTERVALS, BASELINES, SIGNATURES))
    for name, value in results.items():
        if type(value) not in (int, float, type(None)):
            raise UserError(f"{file}: {name}: expected a number, found a {type(value).__name__}")
    for name, value in signatures.items():
        if not isinstance(value, str):
            raise UserError(f"{file}: {SIGNATURES}: {name}: expected a text, found {_shown(value)}")
    return Measured(
        results,
        {name: Interval(*_numbers(file, name, value, 2)) for name, value in intervals.items()},
        {baseline: _differences(file, _section(file, baselines.copy(), baseline)) for baseline in baselines},
        signatures,
    )


def _section(file: Path, held: dict[str, Any], name: str) -> dict[str, Any]:
    """Take a mapping out of another; empty if it is not there."""
    section = held.pop(name, {})
    if not isinstance(section, dict):
        raise UserError(f"{file}: {name}: expected names with values, found a {type(section).__name__}")
    return section


def _differences(file: Path, held: Mapping[str, Any]) -> dict[str, BaselineDifference]:
    return {measure: BaselineDifference(*_numbers(file, measure, value, 3)) for measure, value in held.items()}


def _numbers(file: Path, name: str, value: Any, count: int) -> list[float]:
    if isinstance(value, list) and len(value) == count and all(type(one) in (int, float) for one in value):
        return value
    raise UserError(f"{file}: {name}: expected {count} numbers, found {_shown(value)}")


def plugin_digests(info: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of each plug-in file that a run used, as its run.json says; empty if it used none."""
    return {place: str(digest) for place, digest in _within(info, "files").items()}


def plugin_facts(info: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, str]]:
    """Of each part of a run that was not of the core, by kind and name: its ``origin``, and its ``code``, shortened."""
    found = {}
    for key, facts in _within(info, "parts").items():
        kind, _, name = key.partition("=")
        if isinstance(facts, Mapping):
            found[kind, name] = {str(word): str(value) for word, value in facts.items()}
    return found


def _within(info: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A mapping of what run.json says of plug-ins; empty if it holds anything else."""
    held = info.get("plugins")
    found = held.get(what) if isinstance(held, Mapping) else None
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}


def _check_format(path: Path, number: object) -> None:
    if type(number) is not int or number < 1:
        raise UserError(f"{path}: format must be a whole number from 1 to {FORMAT}, not {number!r}")
    if number > FORMAT:
        raise UserError(f"{path}: run format {number} is newer than the {FORMAT} known here; update attnx")


def _check_facts(path: Path, info: Mapping[str, Any]) -> None:
    for name, (kind, phrase) in FACTS.items():
        value = info.get(name)
        right = isinstance(value, kind) and (not isinstance(value, list) or all(isinstance(one, str) for one in value))
        if value is not None and not right:
            raise UserError(f"{path}: {name}: expected {phrase}, found {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def mapping(path: Path, largest: int = LARGEST) -> dict[str, Any]:
    """The mapping in a JSON or YAML file of at most ``largest`` bytes; empty if there is no file.

    Raises:
        UserError: it cannot be read, or holds something else; see :mod:`attnx.files.bounded_files`.
    """
    if not path.is_symlink() and not path.exists():
        return {}
    content = read_json(path, largest) if path.suffix == ".json" else read_yaml(path, largest) or {}
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
        if Path(above).name == WANDB:
            folders.clear()  # recordings link to W&B's own logs; a run that goes on begins a recording beside them

"""Finds run folders, and reads quickly what is to be known of each: standing, size, choices and results."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.bounded_files import LARGEST, parse_yaml, read_text
from attnx.runs.layout import CONFIG, METRICS, RUN
from attnx.runs.progress import standing
from attnx.runs.run import Run, mapping, read_info, read_measured
from attnx.runs.status import begun, status_of
from attnx.runs.sweep import is_sweep

FACTS = ("name", "path", "status", "begun", "took", "size")
# Where a part of a configuration begins. Most parts are written alike in many runs, and each is parsed once.
PART = re.compile(r"^(?=[^\s#-])", re.MULTILINE)


@dataclass
class Found:
    """A run folder.

    Attributes:
        run: what its files say.
        choices: its configuration by dotted keys.
        status: one of STATUSES.
        size: of all its files, in bytes.
        written: when one of them last was, in seconds since 1970.
    """

    run: Run
    choices: dict[str, Any]
    status: str
    size: int
    written: float

    @property
    def path(self) -> Path:
        """Its folder, as it was come by."""
        return self.run.path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What it goes by: the name it was given, its folder, and if it is a job that behind its sweep's."""
        path = self.path.absolute()
        given = [str(name)] if (name := self.run.info.get("name")) else []
        return (*given, path.name, *([f"{path.parent.name}/{path.name}"] if is_sweep(path.parent) else []))

    @cached_property
    def begun(self) -> datetime | None:
        """When it was made."""
        return begun(self.run)

    @property
    def took(self) -> float | None:
        """The seconds it trained; of one that did not come to its end, from when it was made to its last validation."""
        trained = self.run.results.get("train_seconds")
        if isinstance(trained, int | float) and math.isfinite(trained):
            return float(trained)
        last = time.time() if self.status == "running" else last_row(self.path) or self.written
        return max(0.0, last - self.begun.timestamp()) if self.begun else None

    @property
    def monitor(self) -> str:
        """The validation measure that says which weights are best; "" if the run names none."""
        return str(self.run.info.get("monitor") or "")

    @property
    def test(self) -> str:
        """The same measure, of the test."""
        return f"test_{self.monitor.removeprefix('valid_')}" if self.monitor else ""

    @property
    def maximize(self) -> bool:
        """Whether more of it is better."""
        return bool(self.run.info.get("maximize"))

    @cached_property
    def best(self) -> float | None:
        """Its best value in validation."""
        return standing(self.path).best if self.monitor else None

    def known(self) -> list[str]:
        """The keys that can be asked of it."""
        return [*FACTS, *([self.monitor] if self.monitor else []), *self.run.results, *self.choices]

    def value(self, key: str) -> Any:
        """What it says of a key; None if nothing. A name is whatever it goes by."""
        if key in FACTS:
            return self.names if key == "name" else getattr(self, key)
        if key == self.monitor:
            return self.best
        return self.run.results.get(key, self.choices.get(key))


def flat(kind: str, node: Any) -> Iterator[tuple[str, Any]]:
    """A node of a configuration by the keys that one asks for it with.

    >>> dict(flat("scorer", {"name": "additive", "hidden_size": 64}))
    {'scorer': 'additive', 'scorer.hidden_size': 64}
    >>> dict(flat("query", {"token": {}, "language_tag": {"width": 5}}))
    {'query': '[token,language_tag]', 'query.language_tag.embedding_dim': 5}
    """
    if not isinstance(node, Mapping):
        yield kind, node
    elif "name" in node:
        yield kind, node["name"]
        yield from ((f"{kind}.{knob}", value) for knob, value in node.items() if knob != "name")
    else:
        yield kind, str(next(iter(node))) if len(node) == 1 else f"[{','.join(map(str, node))}]"
        for name, knobs in node.items():
            inside = knobs if isinstance(knobs, Mapping) else {}
            yield from ((f"{kind}.{name}.{knob}", value) for knob, value in inside.items())


def find(roots: Sequence[Path]) -> tuple[list[Found], list[str]]:
    """The runs in some folders, each once, and a line for each that cannot be read.

    Raises:
        UserError: one of them is not a folder.
    """
    runs: dict[Path, Found] = {}
    unread: list[str] = []
    for root in roots:
        if not root.is_dir():
            raise UserError(f"{root}: not a folder")
        for path in folders(root):
            try:
                runs.setdefault(path.resolve() if len(roots) > 1 else path, read(path))
            except (UserError, OSError) as error:
                unread.append(str(error))
    return list(runs.values()), unread


def folders(root: Path) -> Iterator[Path]:
    """The run folders in a folder, itself included; no link is followed, and nothing hidden is looked into."""
    if (root / RUN).is_file():
        yield root
        return
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # not ours to read
        return
    for name in names:
        if not name.startswith("."):
            yield from folders(root / name)


def read(path: Path) -> Found:
    """Read a run folder.

    Raises:
        UserError: a file of it cannot be read, or its format is not known.
    """
    info = read_info(path)
    config, choices = configuration(path / CONFIG)
    run = Run(path, info, config, *read_measured(path))
    size, written = weight(path)
    return Found(run, choices, status_of(run, written), size, written)


def configuration(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration, as it is and by dotted keys.

    Raises:
        UserError: it cannot be read.
    """
    config: dict[str, Any] = {}
    choices: dict[str, Any] = {}
    for part, keys in _parts(file) if file.is_symlink() or file.exists() else ():
        config |= part
        choices |= keys
    return config, choices


def _parts(file: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    text = read_text(file, LARGEST)
    try:
        return [_part(part) for part in PART.split(text) if part.strip()]
    except (UserError, TypeError):  # not as attnx writes them: read, or refused, as a whole
        return [_by_key(mapping(file))]


@cache
def _part(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    held = parse_yaml(text, CONFIG) or {}
    if not isinstance(held, dict):
        raise TypeError(type(held))
    return _by_key(held)


def _by_key(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    kinds = [kind for kind in config if kind != "name"]
    return config, {key: value for kind in kinds for key, value in flat(str(kind), config[kind])}


def last_row(folder: Path) -> float | None:
    """When metrics.csv was last written; None if there is none."""
    file = folder / METRICS
    return file.stat().st_mtime if file.is_file() else None


def weight(folder: Path | str) -> tuple[int, float]:
    """The bytes in a folder, and when a file in it was last written; no link is followed."""
    size, written = 0, 0.0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                inside, last = weight(entry.path)
            else:
                held = entry.stat(follow_symlinks=False)
                inside, last = held.st_size, held.st_mtime
            size, written = size + inside, max(written, last)
    return size, written

"""Reads untrusted files: regular files of bounded size; JSON and YAML of bounded depth.

A run folder may come from somebody else. Reading it can neither fill the memory, nor end in a traceback, nor block: no
pipe or device is read, a YAML alias counts as all values that it stands for, and numbers are finite and have at most
64 bits.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import yaml

from attnx.errors import UserError

MEBIBYTE: Final = 2**20
# Size limits of run.json and config.yaml; of sweep.json and vocabularies; of metrics.csv and predictions.tsv.
MAX_FILE_BYTES: Final = 4 * MEBIBYTE
MAX_LIST_BYTES: Final = 256 * MEBIBYTE
MAX_TABLE_BYTES: Final = 1024 * MEBIBYTE
BYTE_ORDER_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"  # which spreadsheets and some editors write
MAX_DEPTH: Final = 50
MAX_NUMBER_LENGTH: Final = 64
MAX_NUMBER_BITS: Final = 64
MAX_VALUES: Final = 100_000

SURROGATE: Final = re.compile("[\ud800-\udfff]")
# The C loader is many times faster.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(SAFE_LOADER):  # type: ignore[misc]
    """Loads plain values only: dates stay texts, and numbers are bounded."""


def _construct_scalar(loader: Any, node: Any) -> Any:
    kind, problem = node.tag.rpartition(":")[2], f"a number of {len(node.value):,} characters"
    if len(node.value) <= MAX_NUMBER_LENGTH:
        try:
            return getattr(loader, f"construct_yaml_{kind}")(node)
        except (ValueError, KeyError, IndexError):  # of a text with a tag, as in ``!!int x``
            problem = f"{node.value!r} is no {kind}"
    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


for _tag in ("int", "float", "bool"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct_scalar)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", SAFE_LOADER.construct_yaml_str)


@contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, or a link to one, for reading.

    Raises:
        UserError: it is missing, is a folder, a pipe or a device, or cannot be read.
    """
    try:
        # Opening a pipe without a writer would block.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path}: not a plain file")
            yield file
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe: opening one without a writer would block for ever.

    Raises:
        UserError: it is one.
    """
    if path.is_fifo():
        raise UserError(f"{path}: is a pipe; name a file")


def read_bytes(path: Path, largest: int = MAX_FILE_BYTES) -> bytes:
    """Read a plain file of at most ``largest`` bytes.

    Raises:
        UserError: see :func:`open_regular_file`; or it is larger.
    """
    with open_regular_file(path) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise UserError(f"{path}: larger than {largest // MEBIBYTE:,} MiB, the most that is read of such a file")
    return content


def read_text(path: Path, largest: int = MAX_TABLE_BYTES) -> str:
    """Read a UTF-8 file; see :func:`read_bytes`.

    Raises:
        UserError: see there; or it is not UTF-8, with the line.
    """
    content = read_bytes(path, largest)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 text") from error


def read_json(path: Path, largest: int = MAX_FILE_BYTES) -> Any:
    """Read a JSON file.

    Raises:
        UserError: see :func:`read_text`; or it is not JSON, with the line; is nested more than ``MAX_DEPTH`` times; or
            holds a number of more than 64 bits, or one that is not finite.
    """
    return parse_json(read_text(path, largest), str(path))


def read_yaml(path: Path, largest: int = MAX_FILE_BYTES) -> Any:
    """Read a YAML file of plain values: mappings with texts as keys, lists, texts, numbers, truth values and nulls.

    Raises:
        UserError: see :func:`read_json`; or it holds more than ``MAX_VALUES``, an alias counting as all its values.
    """
    return parse_yaml(read_text(path, largest), str(path))


def read_mapping(path: Path, largest: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """Read the mapping in a JSON or YAML file; empty without the file.

    Raises:
        UserError: see :func:`read_json`; or it holds something else.
    """
    if not path.is_symlink() and not path.exists():
        return {}
    content = read_json(path, largest) if path.suffix == ".json" else read_yaml(path, largest) or {}
    if not isinstance(content, dict):
        raise UserError(f"{path}:1: expected names with values, found a {type(content).__name__}")
    return content


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file under its first line's names; of a row that is too short, the cells that it has.

    Raises:
        UserError: see :func:`read_text`; or it is no CSV file, with the line.
    """
    rows = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        names = next(rows, [])
        for row in rows:
            yield dict(zip(names, row, strict=False))
    except csv.Error as error:
        raise UserError(f"{path}:{rows.line_num}: not valid CSV: {error}") from error


def parse_json(text: str, place: str) -> Any:
    """The value of a JSON text; see :func:`read_json`. ``place`` begins the message."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{place}:{error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise UserError(f"{place}: nested more than {MAX_DEPTH} times") from error
    except ValueError as error:  # Python's own limit for the digits of a number
        raise UserError(f"{place}: holds a number of more than {MAX_NUMBER_BITS} bits") from error
    _reject_complex(content, place)
    return content


def parse_yaml(text: str, place: str) -> Any:
    """The value of a YAML text; see :func:`read_yaml`. ``place`` begins the message."""
    try:
        _reject_too_large(text, place)
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", "unreadable")
        raise UserError(f"{place}:{mark.line + 1 if mark else 1}: not valid YAML: {reason}") from error
    _reject_complex(content, place)
    return content


def _reject_too_large(text: str, place: str) -> None:
    """Count the values of a YAML text, event by event before it is loaded; an alias counts as all its values."""
    sizes: dict[str, int] = {}
    open_collections: list[tuple[str | None, int]] = []  # anchor, and the count when it began
    count = 0
    for event in yaml.parse(text, SAFE_LOADER):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, count_at_start = open_collections.pop()
            sizes |= {anchor: count - count_at_start} if anchor else {}
        elif isinstance(event, yaml.AliasEvent):
            count += sizes.get(str(anchor), 1)
        elif isinstance(event, yaml.NodeEvent):
            count += 1
            sizes |= {anchor: 1} if anchor else {}
            if isinstance(event, yaml.CollectionStartEvent):
                open_collections.append((anchor, count - 1))
        if count > MAX_VALUES or len(open_collections) > MAX_DEPTH:
            what = f"more than {MAX_VALUES:,} values" if count > MAX_VALUES else f"nested more than {MAX_DEPTH} times"
            raise UserError(f"{place}:{event.start_mark.line + 1 if event.start_mark else 1}: {what}")


def _reject_complex(value: Any, place: str, depth: int = 0) -> None:
    """Check the types, sizes and depth of a value and all values in it."""
    if isinstance(value, dict | list):
        if depth == MAX_DEPTH:
            raise UserError(f"{place}: nested more than {MAX_DEPTH} times")
        if keys := [key for key in value if not isinstance(key, str)] if isinstance(value, dict) else []:
            raise UserError(f"{place}: holds the key {keys[0]!r}, which is no text")
        for item in value if isinstance(value, list) else chain(value, value.values()):
            _reject_complex(item, place, depth + 1)
    elif isinstance(value, int | float):
        _reject_number(value, place)
    elif isinstance(value, str):
        if not value.isascii() and SURROGATE.search(value):
            raise UserError(f"{place}: holds half of a surrogate pair, which is no text")
    elif value is not None:
        raise UserError(f"{place}: holds a {type(value).__name__}, which is no plain value")


def _reject_number(value: float, place: str) -> None:
    if isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        raise UserError(f"{place}: holds a number of more than {MAX_NUMBER_BITS} bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{place}: holds the number {value}, where numbers are finite")

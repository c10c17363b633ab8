"""Reads untrusted files: plain files of bounded size; JSON, YAML and CSV; NumPy's arrays without pickle.

A run folder may come from somebody else. Reading it can neither fill the memory, nor end in a traceback, nor block: no
pipe or device is read, YAML has no aliases, values are nested to a bounded depth, and numbers are finite and have at
most 64 bits.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import yaml

from attnx.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEBIBYTE: Final = 2**20
# Size limits of run.json and config.yaml; of sweep.json and vocabularies; of metrics.csv and predictions.tsv.
MAX_FILE_BYTES: Final = 4 * MEBIBYTE
MAX_LIST_BYTES: Final = 256 * MEBIBYTE
MAX_TABLE_BYTES: Final = 1024 * MEBIBYTE
MAX_UNPACKED_BYTES: Final = 4096 * MEBIBYTE  # a zip file of a few megabytes can claim to hold any number of bytes
MAX_DEPTH: Final = 50
MAX_NUMBER_LENGTH = MAX_NUMBER_BITS = 64
BYTE_ORDER_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"  # which spreadsheets and some editors write
SURROGATE: Final = re.compile("[\ud800-\udfff]")
# The C loader is many times faster.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(SAFE_LOADER):  # type: ignore[misc]
    """Loads plain values only: dates stay texts, numbers are bounded, and no name in a mapping is written twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value} is written twice; leave one out", problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        kind = node.tag.rpartition(":")[2]
        if kind in ("int", "float") and len(node.value) > MAX_NUMBER_LENGTH:
            raise yaml.constructor.ConstructorError(
                problem=f"a number of {len(node.value):,} characters", problem_mark=node.start_mark
            )
        return super().construct_scalar(node)


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
    """Refuse a pipe, since opening it would wait for a writer; raises UserError."""
    if path.is_fifo():
        raise UserError(f"{path}: is a pipe; name a file")


def read_bytes(path: Path, largest: int = MAX_FILE_BYTES) -> bytes:
    """Read a plain file of at most ``largest`` bytes; raises UserError for another."""
    with open_regular_file(path) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise UserError(f"{path}: larger than {largest // MEBIBYTE:,} MiB, the most that is read of such a file")
    return content


def read_text(path: Path, largest: int = MAX_TABLE_BYTES) -> str:
    """Read a UTF-8 file as :func:`read_bytes` does; raises UserError, also with the line that is no UTF-8."""
    content = read_bytes(path, largest)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 text") from error


def read_json(path: Path, largest: int = MAX_FILE_BYTES) -> Any:
    """Read a JSON file of plain values.

    Raises:
        UserError: as :func:`read_text`; or it is not JSON, with the line; is nested more than ``MAX_DEPTH`` times; or
            has a number that is not finite or has more than 64 bits.
    """
    text = read_text(path, largest)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise UserError(f"{path}: nested more than {MAX_DEPTH} times") from error
    except ValueError as error:  # Python's own limit for the digits of a number
        raise UserError(f"{path}: holds a number of more than {MAX_NUMBER_BITS} bits") from error
    _check(content, path)
    return content


def read_yaml(path: Path, largest: int = MAX_FILE_BYTES) -> Any:
    """Read a YAML file: mappings with texts as keys, lists, texts, numbers, truth values and nulls.

    Raises:
        UserError: as :func:`read_json`; or it has an alias, a few of which could stand for any number of values.
    """
    text, depth = read_text(path, largest), 0
    try:
        for event in yaml.parse(text, SAFE_LOADER):  # the loader would recurse into what is nested
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            is_alias = isinstance(event, yaml.AliasEvent)
            if is_alias or depth > MAX_DEPTH:
                problem = (
                    "an alias is not read; repeat its value" if is_alias else f"nested more than {MAX_DEPTH} times"
                )
                assert event.start_mark is not None, "the loader marks each event"
                raise UserError(f"{path}:{event.start_mark.line + 1}: {problem}")
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", "unreadable")
        raise UserError(f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {reason}") from error
    except UserError:
        raise
    except (ValueError, LookupError) as error:  # a text with the tag of a number, as ``!!int x``
        raise UserError(f"{path}: not valid YAML: {error}") from error
    _check(content, path)
    return content


def read_mapping(path: Path, largest: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """Read the mapping in a JSON or YAML file, empty without the file; raises UserError for anything else in it."""
    if not path.is_symlink() and not path.exists():
        return {}
    content = read_json(path, largest) if path.suffix == ".json" else read_yaml(path, largest) or {}
    if not isinstance(content, dict):
        raise UserError(f"{path}:1: expected names with values, found a {type(content).__name__}")
    return content


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file under its first line's names; a row that is too short has the cells that are there.

    Raises:
        UserError: as :func:`read_text`; or it is no CSV file, with the line.
    """
    rows = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        names = next(rows, [])
        for row in rows:
            yield dict(zip(names, row, strict=False))
    except csv.Error as error:
        raise UserError(f"{path}:{rows.line_num}: not valid CSV: {error}") from error


def read_array(path: Path) -> NDArray[Any]:
    """Read the array of an ``.npy`` file; raises UserError if it is damaged or has Python objects."""
    from numpy.lib import format as npy_format

    with _open_numpy(path) as file:
        return npy_format.read_array(file, allow_pickle=False)


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read arrays of an ``.npz`` file by their names; all by default.

    Raises:
        UserError: as :func:`read_array`; or it unpacks to more than ``MAX_UNPACKED_BYTES``, or has no array of a name.
    """
    from numpy.lib.npyio import NpzFile

    with _open_numpy(path) as file:
        size = sum(member.file_size for member in zipfile.ZipFile(file).infolist())
        if size > MAX_UNPACKED_BYTES:
            most = MAX_UNPACKED_BYTES // 1024 // MEBIBYTE
            raise UserError(f"{path}: unpacks to {size:,} bytes; at most {most} GiB are read of such a file")
        with NpzFile(file, allow_pickle=False) as arrays:
            if missing := set(names or ()) - {*arrays.files}:
                raise UserError(f"{path}: {min(missing)} is not a file in the archive")
            return {name: arrays[name] for name in (arrays.files if names is None else names)}


@contextmanager
def _open_numpy(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_regular_file(path) as file:
            yield file
    except UserError:
        raise
    except Exception as error:  # NumPy reads a header as Python, and believes the sizes that it claims
        raise UserError(f"{path}: is damaged, or no file of NumPy's arrays") from error


def _check(value: Any, path: Path, depth: int = 0) -> None:
    """Check the types, sizes and depth of a value and all values in it."""
    problem = ""
    if isinstance(value, dict | list):
        if keys := [key for key in value if not isinstance(key, str)] if isinstance(value, dict) else []:
            problem = f"holds the key {keys[0]!r}, which is no text"
        elif depth == MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} times"
        else:
            for item in value if isinstance(value, list) else chain(value, value.values()):
                _check(item, path, depth + 1)
    elif isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        problem = f"holds a number of more than {MAX_NUMBER_BITS} bits"
    elif isinstance(value, float) and not math.isfinite(value):
        problem = f"holds the number {value}, where numbers are finite"
    elif isinstance(value, str) and not value.isascii() and SURROGATE.search(value):
        problem = "holds half of a surrogate pair, which is no text"
    elif not isinstance(value, str | int | float | None):
        problem = f"holds a {type(value).__name__}, which is no plain value"
    if problem:
        raise UserError(f"{path}: {problem}")

"""Reads untrusted NumPy array files: of bounded size, and without code."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_files import open_regular_file

# A zip file of a few megabytes can claim to hold any number of bytes.
MAX_UNPACKED_BYTES: Final = 4 * 2**30
# What NumPy and zipfile raise for damaged files: headers are parsed as Python, and their sizes are believed.
DAMAGED: Final = (
    *(OSError, ValueError, EOFError, MemoryError, SyntaxError, NotImplementedError, RuntimeError),
    *(TokenError, zipfile.BadZipFile, zlib.error),
)


def read_array(path: Path) -> NDArray[Any]:
    """Read the array of an ``.npy`` file.

    Raises:
        UserError: the file is missing, damaged, not regular, claims to hold more than it has, or has Python objects.
    """
    try:
        with open_regular_file(path) as file:
            claimed, size = _claimed_bytes(file), os.fstat(file.fileno()).st_size
            if claimed > size:
                raise UserError(f"{path}: is damaged: its array has {claimed:,} bytes, and the file {size:,}")
            file.seek(0)
            return npy_format.read_array(file, allow_pickle=False)
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"{path}: is damaged, or no file of NumPy's arrays") from error


def _claimed_bytes(file: BinaryIO) -> int:
    """The size of an ``.npy`` file's array by its header, which NumPy believes."""
    version = npy_format.read_magic(file)
    read_header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    return math.prod(shape) * dtype.itemsize


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read arrays of an ``.npz`` file by their names; all by default.

    Raises:
        UserError: the file is missing, damaged, not regular, unpacks to more than ``MAX_UNPACKED_BYTES``, has no array
            of a name, or has one that is not plain numbers or text.
    """
    try:
        with open_regular_file(path) as file:
            with zipfile.ZipFile(file) as packed:
                size = sum(member.file_size for member in packed.infolist())
            if size > MAX_UNPACKED_BYTES:
                most = MAX_UNPACKED_BYTES // 2**30
                raise UserError(f"{path}: unpacks to {size:,} bytes; at most {most} GiB are read of such a file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in (arrays.files if names is None else names)}
    except KeyError as error:
        raise UserError(f"{path}: {error.args[0]}") from error
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"{path}: is damaged, or no file of NumPy's arrays") from error

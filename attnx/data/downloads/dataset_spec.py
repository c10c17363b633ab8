"""Specifications of public data sets: description, license, and each file's address, size and SHA-256."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from attnx.files.bounded_files import read_yaml

Content = bytes  # of a file; a field of one is called bytes
SPEC_FOLDER = Path(__file__).parent
SECURE_URL = re.compile(r"(https://|http://127\.0\.0\.1[:/])\S+")  # unencrypted only on this machine


@dataclass(frozen=True)
class DatasetFile:
    """One file of a data set: its path in the data folder, and address, size and SHA-256 of the download.

    ``git_blob`` stands for the last two where only the tree of a repository's commit is known: the file's id in it.
    Of a zip archive ``member`` is extracted, and packed again if ``path`` ends in ``.gz``; ``unpacked`` is the SHA-256
    of its content.
    """

    path: str
    url: str
    bytes: int = 0
    sha256: str = ""
    member: str = ""
    unpacked: str = ""
    git_blob: str = ""

    def download_error(self, content: Content) -> str:
        """Compare a download with the specification; "" if it is correct."""
        size = len(content)
        if self.git_blob:
            current = hashlib.sha1(b"blob %d\0" % size + content, usedforsecurity=False).hexdigest()
            return "" if current == self.git_blob else f"expected the git id {self.git_blob}, got {current}"
        if size != self.bytes:
            return f"expected {self.bytes} bytes, got {size if size < self.bytes else 'more'}"
        return _hash_error(self.sha256, content)

    def content_error(self, content: Content) -> str:
        """Compare the content of the file at its path with the specification; "" if it is correct."""
        if not self.member:
            return self.download_error(content)
        try:
            return _hash_error(self.unpacked, gzip.decompress(content) if self.path.endswith(".gz") else content)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return "expected a gzip file"


@dataclass(frozen=True)
class DatasetSpec:
    """A public data set."""

    name: str
    what: str
    license: str
    origin: str
    files: tuple[DatasetFile, ...]
    notes: str = ""


def _hash_error(expected: str, content: Content) -> str:
    current = hashlib.sha256(content).hexdigest()
    return "" if current == expected else f"expected SHA-256 {expected}, got {current}"


def read_dataset_specs(folder: Path = SPEC_FOLDER) -> dict[str, DatasetSpec]:
    """Read every specification of a folder, by the name of its file."""
    return {file.stem: read_dataset_spec(file) for file in sorted(folder.glob("*.yaml"))}


def read_dataset_spec(path: Path) -> DatasetSpec:
    """Read one specification."""
    content = read_yaml(path)
    files = tuple(DatasetFile(**entry) for entry in content.pop("files"))
    return DatasetSpec(path.stem, **content, files=files)

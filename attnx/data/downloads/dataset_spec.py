"""Specifications of public data sets: description, license, and each file's address, size and SHA-256."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.bounded_files import read_yaml

SPEC_FOLDER = Path(__file__).parent
SECURE_URL = re.compile(r"(https://|http://127\.0\.0\.1[:/])\S+")  # unencrypted only on this machine
SHA256 = "[0-9a-f]{64}"


@dataclass(frozen=True)
class DatasetFile:
    """One file of a data set: its path in the data folder, and address, size and SHA-256 of the download.

    Of a zip archive ``member`` is extracted, and packed again if ``path`` ends in ``.gz``; ``unpacked`` is the SHA-256
    of its content.
    """

    path: str
    url: str
    bytes: int
    sha256: str
    member: str = ""
    unpacked: str = ""

    def download_error(self, path: Path) -> str:
        """Compare a download with the specification; "" if it is correct."""
        size = path.stat().st_size
        if size != self.bytes:
            return f"expected {self.bytes} bytes, got {size if size < self.bytes else 'more'}"
        return _hash_error(self.sha256, path)

    def file_error(self, path: Path) -> str:
        """Compare the file at its final path with the specification; "" if it is correct."""
        if not self.member:
            return self.download_error(path)
        try:
            return _hash_error(self.unpacked, path, is_packed=self.path.endswith(".gz"))
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return "expected a gzip file"


@dataclass(frozen=True)
class DatasetSpec:
    """A public data set."""

    name: str
    what: str
    license: str
    origin: str
    notes: str
    files: tuple[DatasetFile, ...]


def _hash_error(expected: str, path: Path, is_packed: bool = False) -> str:
    with gzip.open(path) if is_packed else path.open("rb") as stream:
        current = hashlib.file_digest(stream, "sha256").hexdigest()
    return "" if current == expected else f"expected SHA-256 {expected}, got {current}"


def read_dataset_specs(folder: Path = SPEC_FOLDER) -> dict[str, DatasetSpec]:
    """Read every specification of a folder, by the name of its file; a malformed one is a UserError."""
    return {file.stem: read_dataset_spec(file) for file in sorted(folder.glob("*.yaml"))}


def read_dataset_spec(path: Path) -> DatasetSpec:
    """Read one specification; a malformed one is a UserError."""
    content = read_yaml(path)
    entries = content.pop("files", None) if isinstance(content, dict) else None
    texts = _check_mapping(
        content, dict.fromkeys(("what", "license", "origin", "notes"), r"(?s).+"), {"notes"}, str(path)
    )
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: files should be a list of at least one")
    files = tuple(_parse_file(entry, path.stem, f"{path}: file {index}") for index, entry in enumerate(entries, 1))
    if len({file.path for file in files}) < len(files):
        raise UserError(f"{path}: two files have the same path")
    return DatasetSpec(path.stem, **{"notes": "", **texts}, files=files)


def _parse_file(entry: Any, name: str, where: str) -> DatasetFile:
    patterns = {
        "path": rf"{re.escape(name)}(/\w[\w.-]*)+",
        "url": SECURE_URL.pattern,
        "bytes": r"[1-9]\d*",
        "sha256": SHA256,
        "member": r".+",
        "unpacked": SHA256,
    }
    texts = _check_mapping(entry, patterns, {"member", "unpacked"}, where)
    if ("member" in texts) != ("unpacked" in texts):
        raise UserError(f"{where}: member and unpacked need each other")
    return DatasetFile(**{**texts, "bytes": int(texts["bytes"])})


def _check_mapping(entry: Any, patterns: dict[str, str], optional: set[str], where: str) -> dict[str, Any]:
    """Return a mapping's values as texts if its keys are complete and known, and each value matches its pattern."""
    if not isinstance(entry, dict):
        raise UserError(f"{where}: expected {', '.join(patterns)}")
    texts = {key: str(value) if isinstance(value, str | int) else "" for key, value in entry.items()}
    errors = [f"{key} is missing" for key in patterns if key not in entry and key not in optional]
    errors += [f"{key} is unknown" for key in entry if key not in patterns]
    errors += [
        f"{key} is {entry[key]!r}, expected {pattern}"
        for key, pattern in patterns.items()
        if key in texts and not re.fullmatch(pattern, texts[key])
    ]
    if errors:
        raise UserError(f"{where}: {'; '.join(errors)}")
    return texts

"""Public data sets: a YAML file per set with license, addresses, sizes and hashes, and the download."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attnx.errors import UserError
from attnx.files.atomic_files import write_bytes
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


SECONDS_WITHOUT_DATA = 30
BYTES_PER_READ = 1 << 16
MAX_BYTES = 1 << 28  # of a file whose size is not known


class Unreachable(UserError):
    """The network failed; the file can be downloaded by other means."""


class _SecureRedirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not SECURE_URL.fullmatch(newurl):
            raise URLError(f"redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(file: DatasetFile, folder: Path, show_bytes: Callable[[int], object]) -> None:
    """Download a file into a folder; ``show_bytes`` is called with the number of bytes received.

    Raises:
        Unreachable: the server cannot be reached, refuses, or stops sending.
        UserError: the download differs from the specification.
        OSError: the folder cannot be written, or the disk is full.
    """
    content = _receive(file, show_bytes)
    error = file.download_error(content)
    if file.member and not error:
        try:
            content = zipfile.ZipFile(io.BytesIO(content)).read(file.member)
            content = gzip.compress(content, mtime=0) if file.path.endswith(".gz") else content
            error = file.content_error(content)
        except (KeyError, zipfile.BadZipFile):
            error = f"is not a zip archive with {file.member}"
    if error:
        raise UserError(f"{file.url}: {error}; the download was deleted")
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


def _receive(file: DatasetFile, show_bytes: Callable[[int], object]) -> bytes:
    """The bytes at the address, one more than expected at most."""
    content, request = bytearray(), Request(file.url, headers={"User-Agent": "attnx"})
    try:
        with build_opener(_SecureRedirects).open(request, timeout=SECONDS_WITHOUT_DATA) as response:
            while len(content) <= (file.bytes or MAX_BYTES) and (chunk := response.read1(BYTES_PER_READ)):
                content += chunk
                show_bytes(len(content))
    except HTTPError as error:
        error.close()
        raise Unreachable(f"{file.url}: the server answers {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise Unreachable(f"cannot reach {urlsplit(file.url).netloc}: {reason}") from None
    return bytes(content)

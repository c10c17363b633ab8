"""Downloads one file of a data set; it is written once its SHA-256 is right."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attnx.data.downloads.dataset_spec import SECURE_URL, DatasetFile
from attnx.errors import UserError
from attnx.files.atomic_files import write_bytes

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
        except (KeyError, zipfile.BadZipFile):
            error = f"is not a zip archive with {file.member}"
        content = gzip.compress(content, mtime=0) if file.path.endswith(".gz") else content
    if error := error or file.content_error(content):
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

"""Downloads one file of a data set: resumable, checked by SHA-256, renamed when complete."""

from __future__ import annotations

import gzip
import os
import shutil
import zipfile
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attnx.data.downloads.dataset_spec import SECURE_URL, DatasetFile
from attnx.errors import UserError
from attnx.files.file_lock import try_lock

SECONDS_WITHOUT_DATA = 30
BYTES_PER_READ = 1 << 16


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
    """Download a file into a folder.

    Received data are in ``PATH.partial`` until the download is complete; the next call resumes it. ``show_bytes`` is
    called with the number of bytes received.

    Raises:
        Unreachable: the server cannot be reached, refuses, or stops sending.
        UserError: another process downloads the file; or the download differs from the specification, and is deleted.
        OSError: the folder cannot be written, or the disk is full.
    """
    path = folder / file.path
    partial = path.with_name(f"{path.name}.partial")
    is_resumed = partial.exists()
    _receive_all(file, partial, show_bytes)
    if is_resumed and file.download_error(partial):  # the earlier part may be wrong
        partial.unlink()
        _receive_all(file, partial, show_bytes)
    if error := file.download_error(partial):
        partial.unlink()
        raise UserError(f"{file.url}: {error}; the download was deleted")
    _install(file, partial, path)


def _receive_all(file: DatasetFile, partial: Path, show_bytes: Callable[[int], object]) -> None:
    """Request the missing bytes, again while every response brings some."""
    previous_size = -1
    while (size := partial.stat().st_size if partial.exists() else 0) < file.bytes:
        if size <= previous_size:
            raise Unreachable(f"{file.url}: the connection broke after {size} of {file.bytes} bytes; they are kept")
        previous_size = size
        with _request(file, size) as response:
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("ab") as stream:
                if not try_lock(stream.fileno()):
                    raise UserError(f"{file.path}: another process is downloading it; try again when that has ended")
                # A server without range requests sends the file from its beginning.
                if response.status != 206 and stream.tell():
                    stream.seek(0)
                    stream.truncate()
                while stream.tell() <= file.bytes and (chunk := _receive(response)):
                    stream.write(chunk)
                    show_bytes(stream.tell())


def _request(file: DatasetFile, start: int) -> HTTPResponse:
    byte_range = {"Range": f"bytes={start}-"} if start else {}
    request = Request(file.url, headers={"User-Agent": "attnx", **byte_range})
    try:
        response: HTTPResponse = build_opener(_SecureRedirects).open(request, timeout=SECONDS_WITHOUT_DATA)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:  # the partial file is longer than the server's
            return _request(file, 0)
        raise Unreachable(f"{file.url}: the server answers {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise Unreachable(f"cannot reach {urlsplit(file.url).netloc}: {reason}") from None
    length = response.headers["Content-Length"]
    if response.status == 200 and length and length != str(file.bytes):
        response.close()
        raise UserError(f"{file.url}: expected {file.bytes} bytes, the server has {length}")
    return response


def _receive(response: HTTPResponse) -> bytes:
    """Return the bytes received so far; none at the end or if the connection broke."""
    try:
        return response.read1(BYTES_PER_READ)
    except (OSError, HTTPException):
        return b""


def _install(file: DatasetFile, partial: Path, path: Path) -> None:
    """Copy or unpack a checked download to its path; another process may have the partial file open for writing."""
    copy = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        if file.member:
            _unpack(file, partial, copy)
        else:
            shutil.copyfile(partial, copy)
        if error := file.file_error(copy):
            raise UserError(f"{file.path} from {file.url}: {error}; the download was deleted")
        os.replace(copy, path)
    finally:
        copy.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)


def _unpack(file: DatasetFile, archive: Path, target: Path) -> None:
    try:
        with (
            zipfile.ZipFile(archive) as members,
            members.open(file.member) as source,
            gzip.open(target, "wb") if file.path.endswith(".gz") else target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{file.url}: is not a zip archive with {file.member}; correct the YAML file") from error

"""Brings one file of a recipe to its place: resumed where it was left, checked, and only then under its own name."""

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

from attnx.data.downloads.recipe import SECURE, RecipeFile
from attnx.errors import UserError

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16


class Unreachable(UserError):
    """The network, not the file, is what went wrong: the same can be fetched by other means."""


class _SecureRedirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not SECURE.fullmatch(newurl):
            raise URLError(f"sends on to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(file: RecipeFile, folder: Path, tell: Callable[[int], object]) -> None:
    """Download a file to its place below a folder.

    What has come lies in ``PATH.partial`` until all is there, and is gone on with by the next call.

    Args:
        file: what to download; nothing lies at its place.
        folder: the data folder.
        tell: is told how many bytes have come.

    Raises:
        Unreachable: the server cannot be reached, refuses, or stops sending.
        UserError: what came is not what the recipe says; nothing of it is kept.
        OSError: the folder or the disk does not take it.
    """
    place = folder / file.path
    partial = place.with_name(f"{place.name}.partial")
    resumed = partial.exists()
    _complete(file, partial, tell)
    if resumed and file.wrong_download(partial):  # what lay there may have been the fault
        partial.unlink()
        _complete(file, partial, tell)
    if wrong := file.wrong_download(partial):
        partial.unlink()
        raise UserError(f"{file.url}: {wrong}; nothing of it was kept")
    _put(file, partial, place)


def _complete(file: RecipeFile, partial: Path, tell: Callable[[int], object]) -> None:
    """Ask for what is missing, again for as long as every answer brings more."""
    before = -1
    while (size := partial.stat().st_size if partial.exists() else 0) < file.bytes:
        if size <= before:
            raise Unreachable(f"{file.url}: the connection was cut after {size} of {file.bytes} bytes; they are kept")
        before = size
        with _ask(file, size) as answer:
            partial.parent.mkdir(parents=True, exist_ok=True)
            # A server that knows no ranges begins at the beginning.
            with partial.open("ab" if answer.status == 206 else "wb") as stream:
                while stream.tell() <= file.bytes and (chunk := _receive(answer)):
                    stream.write(chunk)
                    tell(stream.tell())


def _ask(file: RecipeFile, start: int) -> HTTPResponse:
    ranged = {"Range": f"bytes={start}-"} if start else {}
    request = Request(file.url, headers={"User-Agent": "attnx", **ranged})
    try:
        answer: HTTPResponse = build_opener(_SecureRedirects).open(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:  # what lies there is longer than what the server has
            return _ask(file, 0)
        raise Unreachable(f"{file.url}: the server answers {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise Unreachable(f"cannot reach {urlsplit(file.url).netloc}: {reason}") from None
    length = answer.headers["Content-Length"]
    if answer.status == 200 and length and length != str(file.bytes):
        answer.close()
        raise UserError(f"{file.url}: expected {file.bytes} bytes, the server has {length}")
    return answer


def _receive(answer: HTTPResponse) -> bytes:
    """What has arrived, so that nothing of it is lost with the connection; none at the end or where it was cut."""
    try:
        return answer.read1(CHUNK)
    except (OSError, HTTPException):
        return b""


def _put(file: RecipeFile, partial: Path, place: Path) -> None:
    """Place a checked download. A copy is placed: another process may have the partial file open for writing."""
    own = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        if file.member:
            _unpack(file, partial, own)
        else:
            shutil.copyfile(partial, own)
        if wrong := file.wrong(own):
            raise UserError(f"{file.path} from {file.url}: {wrong}; nothing of it was kept")
        os.replace(own, place)
    finally:
        own.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)


def _unpack(file: RecipeFile, archive: Path, target: Path) -> None:
    try:
        with (
            zipfile.ZipFile(archive) as members,
            members.open(file.member) as source,
            gzip.open(target, "wb") if file.path.endswith(".gz") else target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{file.url}: is no zip archive that holds {file.member}; mend the recipe") from error

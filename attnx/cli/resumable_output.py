"""Resumable output: a sidecar file records how much of which input has been written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json
from attnx.files.file_lock import try_lock

SUFFIX = ".progress"


class ResumableOutput:
    """Output files, and a sidecar ``OUT.progress`` from which the same command continues after an interruption.

    As a context it opens the files; when it ends without an exception the sidecar goes. Standard output, None, is not
    resumable. The request is what decides the output besides the input.

    Raises:
        UserError: a file exists and was not written by the same request, or has been changed since.
    """

    def __init__(self, out: Path | None, alignments: Path | None, request: Mapping[str, Any]) -> None:
        self.paths = [path for path in (out, alignments) if path]
        self.sidecar = out.with_name(out.name + SUFFIX) if out else None
        self.request, self.streams = dict(request), dict[Path, BinaryIO]()
        self.digests = {path: hashlib.sha256() for path in self.paths}
        record = self._read_sidecar()
        for path in self.paths:
            if path.is_dir():
                raise UserError(f"{path}: is a folder; name a file to write")
            if not path.parent.is_dir():
                raise UserError(f"{path}: there is no folder {path.parent} to write it into")
            if path.exists() and not record:
                raise UserError(f"{path}: is there already; move it away, or name another file")
        self.lines: int = record.get("lines", 0)
        self._input, self._input_digest = hashlib.sha256(), record.get("input", "")
        self.sizes = [0] * len(self.paths)
        for index, (size, digest) in enumerate(record.get("files", [])):
            self.sizes[index] = size
            self._check_beginning(self.paths[index], size, digest)

    def remaining(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Skip the lines that are done.

        Raises:
            UserError: they have been changed since.
        """
        for _ in range(self.lines):
            self._input.update(next(lines, (0, b""))[1])
        if self._input_digest and self._input.hexdigest() != self._input_digest:
            raise UserError(
                f"{self.sidecar}: is of another input: its first {self.lines} lines differ; move it away to start anew"
            )
        return lines

    def write(self, path: Path, text: str) -> None:
        """Append a text to one of the files."""
        data = text.encode()
        self.streams[path].write(data)
        self.digests[path].update(data)

    def mark(self, lines: Sequence[bytes]) -> None:
        """Record that these lines of the input are done."""
        for line in lines:
            self._input.update(line)
        self.lines += len(lines)
        for stream in self.streams.values():
            stream.flush()
            os.fsync(stream.fileno())
        if self.sidecar is not None:
            files = [(self.streams[path].tell(), self.digests[path].hexdigest()) for path in self.paths]
            progress = {"lines": self.lines, "input": self._input.hexdigest(), "files": files}
            write_json(self.sidecar, {"request": self.request, **progress})

    def __enter__(self) -> Self:
        """Open the files to append to them; what was written after the last mark is cut off."""
        for path, size in zip(self.paths, self.sizes, strict=True):
            try:
                stream = path.open("r+b" if path.exists() else "wb")
            except OSError as error:
                self.__exit__(UserError, None, None)
                raise UserError(f"{path}: cannot be written: {error.strerror}") from error
            if not try_lock(stream.fileno()):
                for opened in (stream, *self.streams.values()):
                    opened.close()
                raise UserError(f"{path}: another process writes it; wait until that has ended")
            self.streams[path] = stream
            self.streams[path].truncate(size)
            self.streams[path].seek(size)
        try:
            self.mark([])
        except OSError as error:  # of a full disk
            self.__exit__(OSError, error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the files; remove the sidecar if all is done, and every file if nothing is."""
        for path, stream in self.streams.items():
            with suppress(OSError) if kind else nullcontext():  # of a full disk, which has been reported
                stream.close()
            if kind and not self.lines:
                path.unlink()
        if self.sidecar and (not kind or not self.lines):
            self.sidecar.unlink(missing_ok=True)

    def _check_beginning(self, path: Path, size: int, digest: str) -> None:
        try:
            with path.open("rb") as stream:
                self.digests[path].update(stream.read(size))
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        if self.digests[path].hexdigest() != digest:
            raise UserError(f"{path}: does not begin with what was written there; move it away to start anew")

    def _read_sidecar(self) -> dict[str, Any]:
        """The sidecar's content, empty if there is none; that of another request is refused."""
        record: Any = read_json(self.sidecar) if self.sidecar and self.sidecar.is_file() else {}
        no_progress = f"{self.sidecar}: holds no progress of a command; move it away to start anew"
        if not isinstance(record, dict) or not isinstance(record.get("request", {}), dict):
            raise UserError(no_progress)
        recorded = record.get("request", {})
        if changed := [name for name, value in self.request.items() if record and recorded.get(name) != value]:
            raise UserError(
                f"{self.sidecar}: was left by another request, which differs in {', '.join(changed)}; "
                "repeat that one, or move the file away to start anew"
            )
        if record and not _is_progress(record, len(self.paths)):
            raise UserError(no_progress)
        return record


def _is_progress(record: Mapping[str, Any], num_files: int) -> bool:
    """Whether a record counts lines, and has the size and the digest of each file."""
    match record:
        case {"lines": int(lines), "input": str(), "files": [*files]} if lines >= 0 and len(files) == num_files:
            return all(_is_size_and_digest(file) for file in files)
    return False


def _is_size_and_digest(file: object) -> bool:
    match file:
        case [int(size), str()]:
            return size >= 0
    return False

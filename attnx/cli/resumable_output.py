"""Resumable output: a sidecar file records how much of which input has been written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json

SUFFIX = ".progress"
CHUNK_BYTES = 1 << 20


class AppendOnlyFile:
    """A file that grows; bytes written after the last mark are cut off when it is opened again.

    Args:
        path: the file.
        size: marked bytes that it begins with.
        digest: their SHA-256.

    Raises:
        UserError: it cannot be written, or does not begin with those bytes.
    """

    def __init__(self, path: Path, size: int = 0, digest: str = "") -> None:
        self.path, self.size, self._hash = path, 0, hashlib.sha256()
        self.stream: BinaryIO | None = None
        if size:
            self._check_beginning(size, digest)

    def open(self) -> None:
        """Open the file to append after the marked bytes."""
        try:
            self.stream = self.path.open("r+b" if self.size else "wb")
            self.stream.truncate(self.size)
            self.stream.seek(self.size)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}") from error

    def write(self, text: str) -> None:
        """Append a text."""
        assert self.stream is not None
        data = text.encode()
        self.stream.write(data)
        self._hash.update(data)
        self.size += len(data)

    def mark(self) -> tuple[int, str]:
        """Flush to the disk; return the size and the SHA-256."""
        assert self.stream is not None
        self.stream.flush()
        os.fsync(self.stream.fileno())
        return self.size, self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self.stream is not None:
            self.stream.close()

    def _check_beginning(self, size: int, digest: str) -> None:
        try:
            with self.path.open("rb") as stream:
                while self.size < size and (chunk := stream.read(min(CHUNK_BYTES, size - self.size))):
                    self._hash.update(chunk)
                    self.size += len(chunk)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read: {error.strerror}") from error
        if self._hash.hexdigest() != digest:
            raise UserError(f"{self.path}: does not begin with what was written there; move it away to start anew")


class ResumableOutput:
    """Output files and their sidecar ``OUT.progress``, from which the same command continues after an interruption.

    Args:
        out: the output; None for standard output, which is not resumable.
        alignments: files that are written in step with it.
        fingerprint: what decides the output besides the input.

    Raises:
        UserError: a file exists and was not written by the same request, or has been changed since.
    """

    def __init__(self, out: Path | None, alignments: Sequence[Path], fingerprint: Mapping[str, Any]) -> None:
        self.fingerprint = dict(fingerprint)
        if out is not None and out.is_dir():
            raise UserError(f"{out}: is a folder; name a file to write")
        self.sidecar = out.with_name(out.name + SUFFIX) if out else None
        paths = [*([out] if out else []), *alignments]
        record = self._read_sidecar()
        for path in paths:
            if not record and path.exists():
                raise UserError(f"{path}: is there already; move it away, or name another file")
            if not path.parent.is_dir():
                raise UserError(f"{path}: there is no folder {path.parent} to write it into")
        marks = record.get("files") or [(0, "")] * len(paths)
        if len(marks) != len(paths):
            raise UserError(f"{self.sidecar}: records {len(marks)} files; move it away to start anew")
        self.files = [AppendOnlyFile(path, *mark) for path, mark in zip(paths, marks, strict=True)]
        self.lines: int = record.get("lines", 0)
        self._input, self._input_digest = hashlib.sha256(), record.get("input", "")

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

    def open(self) -> None:
        """Open the files to append to them."""
        for file in self.files:
            file.open()
        self.mark([])

    def mark(self, lines: Sequence[bytes]) -> None:
        """Record that these lines of the input are done."""
        for line in lines:
            self._input.update(line)
        self.lines += len(lines)
        if self.sidecar is not None:
            progress = {"lines": self.lines, "input": self._input.hexdigest(), "files": [f.mark() for f in self.files]}
            write_json(self.sidecar, {"format": 1, **self.fingerprint, **progress})

    def close(self, is_finished: bool) -> None:
        """Close the files; remove the sidecar if all is done, and every file if nothing is."""
        for file in self.files:
            file.close()
            if not is_finished and not self.lines:
                file.path.unlink()
        if self.sidecar is not None and (is_finished or not self.lines):
            self.sidecar.unlink(missing_ok=True)

    def _read_sidecar(self) -> dict[str, Any]:
        """The sidecar's content, empty if there is none.

        Raises:
            UserError: it is broken, or of another request.
        """
        if self.sidecar is None or not self.sidecar.is_file():
            return {}
        try:
            record = read_json(self.sidecar)
            is_valid = isinstance(record["lines"], int) and isinstance(record["input"], str) and record["format"] == 1
            is_valid &= all(isinstance(size, int) and isinstance(digest, str) for size, digest in record["files"])
        except (ValueError, LookupError, TypeError):
            is_valid = False
        if not is_valid:
            raise UserError(f"{self.sidecar}: is no progress that can be continued; move it away to start anew")
        if changed := [name for name, value in self.fingerprint.items() if record.get(name) != value]:
            raise UserError(
                f"{self.sidecar}: was left by another request, which differs in {', '.join(changed)}; "
                "repeat that one, or move the file away to start anew"
            )
        return dict(record)

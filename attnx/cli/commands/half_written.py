"""Output files that can be gone on with: beside them lies what was done so far, and of what."""

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
CHUNK = 1 << 20


class AppendOnlyFile:
    """A file that grows; what was not marked when its writer stopped, half a line perhaps, is cut off.

    Args:
        path: the file.
        size: how many of its bytes were marked.
        digest: their SHA-256.

    Raises:
        UserError: it cannot be written, or does not begin with those bytes.
    """

    def __init__(self, path: Path, size: int = 0, digest: str = "") -> None:
        self.path, self.size, self._hash = path, 0, hashlib.sha256()
        self.stream: BinaryIO | None = None
        if size:
            self._recall(size, digest)

    def open(self) -> None:
        """Open it behind what was marked."""
        try:
            self.stream = self.path.open("r+b" if self.size else "wb")
            self.stream.truncate(self.size)
            self.stream.seek(self.size)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}") from error

    def write(self, text: str) -> None:
        """Add to it."""
        assert self.stream is not None
        data = text.encode()
        self.stream.write(data)
        self._hash.update(data)
        self.size += len(data)

    def mark(self) -> tuple[int, str]:
        """Bring everything to the disk; how much it is, and its SHA-256."""
        assert self.stream is not None
        self.stream.flush()
        os.fsync(self.stream.fileno())
        return self.size, self._hash.hexdigest()

    def close(self) -> None:
        """Close it."""
        if self.stream is not None:
            self.stream.close()

    def _recall(self, size: int, digest: str) -> None:
        try:
            with self.path.open("rb") as stream:
                while self.size < size and (chunk := stream.read(min(CHUNK, size - self.size))):
                    self._hash.update(chunk)
                    self.size += len(chunk)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read: {error.strerror}") from error
        if self._hash.hexdigest() != digest:
            raise UserError(f"{self.path}: does not begin with what was written there; move it away to start anew")


class ResumableOutput:
    """An output with ``OUT.progress`` beside it, from which the same command goes on after an interruption.

    Args:
        out: the output; None for standard output, which nothing can be added to later.
        others: files that are written in step with it.
        asked: what decides the output, beside the input.

    Raises:
        UserError: a file is there and was not left by the same request, or has been changed since.
    """

    def __init__(self, out: Path | None, others: Sequence[Path], asked: Mapping[str, Any]) -> None:
        self.asked = dict(asked)
        if out is not None and out.is_dir():
            raise UserError(f"{out}: is a folder; name a file to write")
        self.side = out.with_name(out.name + SUFFIX) if out else None
        files = [*([out] if out else []), *others]
        held = self._held()
        for file in files:
            if not held and file.exists():
                raise UserError(f"{file}: is there already; move it away, or name another file")
            if not file.parent.is_dir():
                raise UserError(f"{file}: there is no folder {file.parent} to write it into")
        marks = held.get("files") or [(0, "")] * len(files)
        if len(marks) != len(files):
            raise UserError(f"{self.side}: is of {len(marks)} files; move it away to start anew")
        self.files = [AppendOnlyFile(file, *mark) for file, mark in zip(files, marks, strict=True)]
        self.lines, self._input, self._known = held.get("lines", 0), hashlib.sha256(), held.get("input", "")
        self._read = 0

    def rest(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The lines that are not done.

        Raises:
            UserError: those that are done have been changed since.
        """
        while self._read < self.lines:
            _, raw = next(lines, (0, None))
            if raw is None:
                break
            self._input.update(raw)
            self._read += 1
        if self._known and self._input.hexdigest() != self._known:
            raise UserError(
                f"{self.side}: is of another input: its first {self.lines} lines differ; move it away to start anew"
            )
        return lines

    def open(self) -> None:
        """Open the files, to add to them."""
        for file in self.files:
            file.open()
        self.mark([])

    def mark(self, raw: Sequence[bytes]) -> None:
        """Note that these lines of the input are done."""
        for line in raw:
            self._input.update(line)
        self.lines += len(raw)
        if self.side is not None:
            marks = [file.mark() for file in self.files]
            held = {"format": 1, **self.asked, "lines": self.lines, "input": self._input.hexdigest(), "files": marks}
            write_json(self.side, held)

    def close(self, finished: bool) -> None:
        """Close the files; what is finished needs nothing beside it, and of what was not begun nothing is left."""
        for file in self.files:
            file.close()
            if not finished and not self.lines:
                file.path.unlink()
        if self.side is not None and (finished or not self.lines):
            self.side.unlink(missing_ok=True)

    def _held(self) -> dict[str, Any]:
        """What lies beside the first file, if it is of the same request."""
        if self.side is None or not self.side.is_file():
            return {}
        try:
            held = read_json(self.side)
            whole = isinstance(held["lines"], int) and isinstance(held["input"], str) and held["format"] == 1
            whole = whole and all(isinstance(size, int) and isinstance(mark, str) for size, mark in held["files"])
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(f"{self.side}: cannot be gone on from; move it away to start anew") from error
        if not whole:
            raise UserError(f"{self.side}: cannot be gone on from; move it away to start anew")
        if unlike := [name for name, value in self.asked.items() if held.get(name) != value]:
            raise UserError(
                f"{self.side}: was left by another request ({', '.join(unlike)} differ{'s' * (len(unlike) == 1)}); "
                "repeat that one, or move the file away to start anew"
            )
        return dict(held)

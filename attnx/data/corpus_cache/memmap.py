"""Memory-mapped corpora: rows encoded once into flat files of a folder, for corpora larger than memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from attnx.data.dataset import PairDataset, tag_indices
from attnx.data.examples import Symbols
from attnx.data.ragged import Ragged
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.atomic_files import atomic_folder
from attnx.files.bounded_files import read_json

ROWS_FORMAT: Final = 1
HEADER: Final = "corpus.json"
SIDES: Final = ("source", "target")
FILES: Final = {"source.ids", "source.offsets", "target.ids", "target.offsets"}
OFFSETS_DTYPE: Final = "<i8"
DELETE_FOLDER: Final = "delete the folder and write it again"
# Rows in memory while they are encoded, and while they are sorted by tag.
ROWS_PER_CHUNK, ROWS_PER_SORT = 10_000, 1_000_000

Entry = tuple[Symbols, Symbols, str]
"""Source, target and tag."""
Header = dict[str, Any]


def write_corpus(
    folder: Path, entries: Iterable[Entry], source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()
) -> None:
    """Encode entries into a folder, a few at a time; the folder appears atomically.

    If another process finishes it first, its folder stays.

    ``tags`` are all tags in the order of their index; without them those of the entries are ignored. Targets end with
    ``EOS``. A folder that is not empty, and no entries, are UserErrors; an empty source or an unknown tag a ValueError.
    """
    stream = iter(entries)
    with atomic_folder(folder) as unfinished:
        chunks = iter(lambda: list(islice(stream, ROWS_PER_CHUNK)), [])
        if not extend_corpus(unfinished, chunks, source, target, tags):
            raise UserError(f"{folder}: there are no entries to write")


def extend_corpus(
    folder: Path,
    chunks: Iterable[list[Entry]],
    source: Vocabulary,
    target: Vocabulary,
    tags: Sequence[str] = (),
    counts: Mapping[str, int] | None = None,
    save_counts: Callable[[dict[str, int]], None] | None = None,
) -> int:
    """Write a corpus into a folder, or continue one, and return the number of rows.

    The missing entries come in chunks; their division changes no byte. ``save_counts`` is called with the numbers in
    each file once a chunk is on the disk. Files are truncated to ``counts``; one with fewer numbers is a UserError.
    """
    dtypes = {"source.ids": _narrow_dtype(len(source)), "target.ids": _narrow_dtype(len(target))}
    dtypes |= {f"{side}.offsets": OFFSETS_DTYPE for side in SIDES} | (
        {"tags": _narrow_dtype(len(tags))} if tags else {}
    )
    with ExitStack() as stack:
        files = {
            name: _GrowingFile(folder / name, dtype, (counts or {}).get(name, 0), stack)
            for name, dtype in dtypes.items()
        }
        for chunk in chunks:
            _append_chunk(files, chunk, source, target, tags)
            if save_counts:
                for file in files.values():
                    file.fsync()
                save_counts({name: file.count for name, file in files.items()})
    headers: dict[str, Header] = {}
    for name, file in files.items():
        with (folder / name).open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        headers[name] = {"dtype": file.dtype, "count": file.count, "sha256": sha256}
    if tags:
        headers |= _sort_by_tag(folder, dtypes["tags"], len(tags))
    rows = max(0, files["source.offsets"].count - 1)
    header = {"format": ROWS_FORMAT, "rows": rows, **_describe_ids(source, target, tags), "files": headers}
    (folder / HEADER).write_text(json.dumps(header, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return rows


def read_corpus(folder: Path, source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()) -> PairDataset:
    """Map what :func:`write_corpus` wrote; a UserError if it is incomplete, or of other symbols or tags."""
    header = _read_header(folder)
    for key, value in _describe_ids(source, target, tags).items():
        if header[key] != value:
            what = key if key == "tags" else f"{key} symbols"
            raise UserError(f"{folder}: was written with other {what}; {DELETE_FOLDER}")
    return _map_files(folder.absolute())


def _describe_ids(source: Vocabulary, target: Vocabulary, tags: Sequence[str]) -> dict[str, Any]:
    """Return hashes of the vocabularies, and the tags."""
    hashes = [hashlib.sha256(json.dumps(side.symbols).encode()).hexdigest()[:16] for side in (source, target)]
    return {"source": hashes[0], "target": hashes[1], "tags": list(tags)}


class _GrowingFile:
    """A file of numbers that is appended to, after the first ``count`` of them."""

    def __init__(self, path: Path, dtype: str, count: int, stack: ExitStack) -> None:
        self.stream = stack.enter_context(path.open("r+b" if count else "wb"))
        self.dtype, self.count = dtype, count
        size = count * np.dtype(dtype).itemsize
        if (missing := size - self.stream.seek(0, os.SEEK_END)) > 0:
            raise UserError(f"{path}: {missing} bytes that were written are missing; {DELETE_FOLDER}")
        self.stream.truncate(size)
        self.stream.seek(size)

    def append(self, numbers: npt.ArrayLike) -> None:
        narrow = np.asarray(numbers, dtype=self.dtype)
        self.stream.write(narrow.data)
        self.count += len(narrow)

    def fsync(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())


def _narrow_dtype(count: int) -> str:
    return "<u2" if count <= 2**16 else "<i4"


def _append_chunk(
    files: dict[str, _GrowingFile], chunk: list[Entry], source: Vocabulary, target: Vocabulary, tags: Sequence[str]
) -> None:
    if not all(entry[0] for entry in chunk):
        raise ValueError("an entry has an empty source")
    _append(files, "source", [source.encode(entry[0]) for entry in chunk])
    _append(files, "target", [target.encode(entry[1], end=True) for entry in chunk])
    if tags:
        files["tags"].append(tag_indices([entry[2] for entry in chunk], tags))
    chunk.clear()  # before the next one is made


def _append(files: dict[str, _GrowingFile], side: str, sequences: list[list[int]]) -> None:
    flat, offsets = files[f"{side}.ids"], files[f"{side}.offsets"]
    ends = flat.count + np.cumsum([len(sequence) for sequence in sequences])
    offsets.append(ends if offsets.count else np.append(0, ends))
    flat.append(list(chain.from_iterable(sequences)))


def _sort_by_tag(folder: Path, dtype: str, num_tags: int) -> dict[str, Header]:
    """Write the row indices tag after tag, and where each tag starts."""
    tags = np.memmap(folder / "tags", dtype, "r")
    offsets = [0]
    with (folder / "rows_by_tag").open("wb") as stream:
        for tag in range(num_tags):
            for start in range(0, len(tags), ROWS_PER_SORT):
                rows = start + np.flatnonzero(tags[start : start + ROWS_PER_SORT] == tag)
                stream.write(rows.astype(OFFSETS_DTYPE).tobytes())
            offsets.append(stream.tell() // np.dtype(OFFSETS_DTYPE).itemsize)
    np.array(offsets, OFFSETS_DTYPE).tofile(folder / "tag_offsets")
    counts = {"rows_by_tag": len(tags), "tag_offsets": len(offsets)}
    return {name: {"dtype": OFFSETS_DTYPE, "count": count} for name, count in counts.items()}


def _read_header(folder: Path) -> Header:
    """Read the header and check the files' sizes against it."""
    path = folder / HEADER
    if not path.is_file():
        raise UserError(f"{path}: no such file: {folder} is not a corpus, or was never finished")
    try:
        header: Header = read_json(path)
        version = header["format"]
        files = header["files"] if version == ROWS_FORMAT else {}
        sizes = {name: file["count"] * np.dtype(file["dtype"]).itemsize for name, file in files.items()}
        if version == ROWS_FORMAT and not (header.keys() >= {*SIDES, "tags"} and sizes.keys() >= FILES):
            raise KeyError("what is read later")
    except (UserError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: is not the header of a corpus; {DELETE_FOLDER}") from error
    if version != ROWS_FORMAT:
        raise UserError(
            f"{path}: has format {version}, but this attnx reads {ROWS_FORMAT}; update attnx, or {DELETE_FOLDER}"
        )
    for name, size in sizes.items():
        current = (folder / name).stat().st_size if (folder / name).is_file() else 0
        if current != size:
            raise UserError(f"{folder / name}: has {current} bytes, expected {size}; {DELETE_FOLDER}")
    return header


def _map_files(folder: Path) -> PairDataset:
    """Map the files; another process maps them for itself."""
    files = _read_header(folder)["files"]
    # Plain views: slices of np.memmap are slow to make.
    maps = {name: np.asarray(np.memmap(folder / name, file["dtype"], "r")) for name, file in files.items()}
    source, target = (Ragged(maps[f"{side}.ids"], maps[f"{side}.offsets"]) for side in SIDES)
    return PairDataset(
        source,
        target,
        tags=maps.get("tags"),
        tag_rows=Ragged(maps["rows_by_tag"], maps["tag_offsets"]) if "tags" in maps else None,
        reopen=partial(_map_files, folder),
        # The header contains the files' hashes.
        known_fingerprint=hashlib.sha256((folder / HEADER).read_bytes()).hexdigest()[:16],
    )

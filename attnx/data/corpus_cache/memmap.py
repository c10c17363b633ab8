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

FORMAT: Final = 1
HEADER: Final = "corpus.json"
SIDES: Final = ("source", "target")
KINDS: Final = ("ids", "offsets")
OFFSETS_DTYPE: Final = "<i8"
DELETE_FOLDER: Final = "delete the folder and write it again"
# Rows in memory while they are encoded, and while they are sorted by tag.
ROWS_PER_CHUNK, ROWS_PER_SORT = 10_000, 1_000_000
# Bytes in memory while a file of an interrupted run is hashed again.
BYTES_PER_READ = 1 << 20

Entry = tuple[Symbols, Symbols, str]
"""Source, target and tag."""
Header = dict[str, Any]


def write_corpus(
    folder: Path, entries: Iterable[Entry], source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()
) -> None:
    """Encode entries into a folder, a few at a time; the folder appears atomically.

    If another process finishes it first, its folder stays.

    Args:
        folder: must not exist, or be empty.
        entries: what to encode; without ``tags``, theirs are ignored.
        source: encodes the sources.
        target: encodes the targets, each ended by ``EOS``.
        tags: every tag, in the order of its index.

    Raises:
        UserError: the folder is not empty or cannot be written, or there are no entries.
        ValueError: an entry has an empty source, or a tag that is not listed.
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
    """Write a corpus into a folder, or continue one; the division into chunks changes no byte.

    Args:
        folder: where the corpus is.
        chunks: the missing entries, some at a time; see :func:`write_corpus`.
        source: encodes the sources.
        target: encodes the targets.
        tags: every tag.
        counts: numbers in each file at the last saved chunk; files are truncated to them.
        save_counts: called with the counts once a chunk is on the disk.

    Returns:
        the number of rows.

    Raises:
        UserError: a file has fewer numbers than ``counts`` says.
    """
    files = _write(folder, chunks, (source, target), tags, counts or {}, save_counts)
    rows: int = files["source.offsets"]["count"] - 1
    header = {"format": FORMAT, "rows": rows, **_describe_ids(source, target, tags), "files": files}
    (folder / HEADER).write_text(json.dumps(header, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return rows


def read_corpus(folder: Path, source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()) -> PairDataset:
    """Map the files that :func:`write_corpus` wrote with these vocabularies and tags.

    Raises:
        UserError: the folder is missing, incomplete, of another format, or written with other symbols or tags.
    """
    header, expected = _read_header(folder), _describe_ids(source, target, tags)
    for key, what in (("source", "source symbols"), ("target", "target symbols"), ("tags", "tags")):
        if header[key] != expected[key]:
            raise UserError(f"{folder}: was written with other {what}; {DELETE_FOLDER}")
    return _map_files(folder.absolute())


def _describe_ids(source: Vocabulary, target: Vocabulary, tags: Sequence[str]) -> dict[str, Any]:
    """Return the vocabularies' sizes and hashes, and the tags."""
    sides: dict[str, Any] = {
        side: {
            "symbols": len(vocabulary),
            "fingerprint": hashlib.sha256(json.dumps(vocabulary.symbols).encode()).hexdigest()[:16],
        }
        for side, vocabulary in zip(SIDES, (source, target), strict=True)
    }
    return sides | {"tags": list(tags)}


class _GrowingFile:
    """A file of numbers that is appended to, and its hash."""

    def __init__(self, path: Path, dtype: str, stack: ExitStack, count: int = 0) -> None:
        self.stream = stack.enter_context(path.open("r+b" if count else "wb"))
        self.dtype = dtype
        self.count = count
        self.hash = hashlib.sha256()
        self._hash_written(path, count * np.dtype(dtype).itemsize)

    def _hash_written(self, path: Path, size: int) -> None:
        """Hash the first ``size`` bytes and truncate the file there."""
        while size and (block := self.stream.read(min(size, BYTES_PER_READ))):
            self.hash.update(block)
            size -= len(block)
        if size:
            raise UserError(f"{path}: {size} bytes that were written are missing; {DELETE_FOLDER}")
        self.stream.truncate()

    def fsync(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def append(self, numbers: npt.ArrayLike) -> None:
        narrow = np.asarray(numbers, dtype=self.dtype)
        self.stream.write(narrow.data)
        self.hash.update(narrow.data)
        self.count += len(narrow)

    def header(self) -> Header:
        return {"dtype": self.dtype, "count": self.count, "sha256": self.hash.hexdigest()}


def _narrow_dtype(count: int) -> str:
    return "<u2" if count <= 2**16 else "<i4"


def _write(
    folder: Path,
    chunks: Iterable[list[Entry]],
    vocabularies: tuple[Vocabulary, Vocabulary],
    tags: Sequence[str],
    counts: Mapping[str, int],
    save_counts: Callable[[dict[str, int]], None] | None,
) -> dict[str, Header]:
    """Write ids, offsets and tags; return each file's dtype, count and hash."""
    dtypes = {
        f"{side}.ids": _narrow_dtype(len(vocabulary)) for side, vocabulary in zip(SIDES, vocabularies, strict=True)
    }
    dtypes |= {f"{side}.offsets": OFFSETS_DTYPE for side in SIDES} | (
        {"tags": _narrow_dtype(len(tags))} if tags else {}
    )
    with ExitStack() as stack:
        files = {name: _GrowingFile(folder / name, dtype, stack, counts.get(name, 0)) for name, dtype in dtypes.items()}
        for side in SIDES:
            if not files[f"{side}.offsets"].count:
                files[f"{side}.offsets"].append([0])
        for chunk in chunks:
            _append_chunk(files, chunk, vocabularies, tags)
            if save_counts:
                for file in files.values():
                    file.fsync()
                save_counts({name: file.count for name, file in files.items()})
    headers = {name: file.header() for name, file in files.items()}
    if tags:
        headers["rows_by_tag"], headers["tag_offsets"] = _sort_by_tag(folder, headers["tags"], len(tags))
    return headers


def _append_chunk(
    files: dict[str, _GrowingFile],
    chunk: list[Entry],
    vocabularies: tuple[Vocabulary, Vocabulary],
    tags: Sequence[str],
) -> None:
    if not all(entry[0] for entry in chunk):
        raise ValueError("an entry has an empty source")
    for index, side in enumerate(SIDES):
        encode = partial(vocabularies[index].encode, end=side == "target")
        _append(files, side, [encode(entry[index]) for entry in chunk])
    if tags:
        files["tags"].append(tag_indices([entry[2] for entry in chunk], tags))
    chunk.clear()  # before the next one is made


def _append(files: dict[str, _GrowingFile], side: str, sequences: list[list[int]]) -> None:
    flat, offsets = files[f"{side}.ids"], files[f"{side}.offsets"]
    offsets.append(flat.count + np.cumsum([len(sequence) for sequence in sequences]))
    flat.append(list(chain.from_iterable(sequences)))


def _sort_by_tag(folder: Path, header: Header, num_tags: int) -> tuple[Header, Header]:
    """Write the row indices tag after tag, and where each tag starts: a counting sort in two passes."""
    tags = np.memmap(folder / "tags", header["dtype"], "r")
    starts = range(0, len(tags), ROWS_PER_SORT)
    counts = sum(np.bincount(tags[start : start + ROWS_PER_SORT], minlength=num_tags) for start in starts)
    offsets = np.append(0, np.cumsum(counts)).astype(OFFSETS_DTYPE)
    (folder / "tag_offsets").write_bytes(offsets.tobytes())
    rows = np.memmap(folder / "rows_by_tag", OFFSETS_DTYPE, "w+", shape=len(tags))
    ends = offsets[:-1].copy()
    for start in starts:
        block = np.asarray(tags[start : start + ROWS_PER_SORT])
        for tag in np.unique(block).tolist():
            matches = np.flatnonzero(block == tag)
            rows[ends[tag] : ends[tag] + len(matches)] = start + matches
            ends[tag] += len(matches)
    rows.flush()
    return {"dtype": OFFSETS_DTYPE, "count": len(tags)}, {"dtype": OFFSETS_DTYPE, "count": num_tags + 1}


def _read_header(folder: Path) -> Header:
    """Read the header and check the files' sizes against it."""
    path = folder / HEADER
    if not path.is_file():
        raise UserError(f"{path}: no such file: {folder} is not a corpus, or was never finished")
    invalid = f"{path}: is not the header of a corpus; {DELETE_FOLDER}"
    try:
        header: Header = read_json(path)
    except UserError as error:
        raise UserError(invalid) from error
    try:
        if header["format"] != FORMAT:
            raise UserError(
                f"{path}: has format {header['format']}, but this attnx reads {FORMAT}; "
                f"update attnx, or {DELETE_FOLDER}"
            )
        sizes = {name: file["count"] * np.dtype(file["dtype"]).itemsize for name, file in header["files"].items()}
        # Fail now for keys that are read later.
        needed = [f"{side}.{kind}" for side in SIDES for kind in KINDS] + ["tags"] * ("tags" in sizes)
        _ = [header[key] for key in (*SIDES, "tags")], [header["files"][name]["sha256"] for name in needed]
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(invalid) from error
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

"""Corpora larger than memory: rows are encoded once into flat files of a folder, and the files are mapped, not read."""

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

from attnx.data.batches import PairDataset, Ragged, number_tags
from attnx.data.examples import Symbols
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.atomic_files import atomic_folder
from attnx.files.bounded_files import read_json

FORMAT: Final = 1
HEADER: Final = "corpus.json"
SIDES: Final = ("source", "target")
KINDS: Final = ("ids", "offsets")
OFFSETS: Final = "<i8"
ANEW: Final = "delete the folder and write it anew"
# Rows in memory while they are encoded, and while they are sorted by tag.
ENCODED, SORTED = 10_000, 1_000_000
# Bytes in memory while what was written before is hashed again.
HASHED = 1 << 20

Entry = tuple[Symbols, Symbols, str]
Header = dict[str, Any]


def write_corpus(
    folder: Path, entries: Iterable[Entry], source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()
) -> None:
    """Encode the source, target and tag of every entry into a folder; few of them are in memory at a time.

    The folder gets its name when it is whole. If another process has finished it meanwhile, that one stays.

    Args:
        folder: where to; must not exist, unless it is empty.
        entries: what to encode; without ``tags``, theirs are not looked at.
        source: encodes the sources.
        target: encodes the targets, each closed by ``EOS``.
        tags: every tag, in the order of its number.

    Raises:
        UserError: the folder holds something or cannot be written, or there are no entries.
        ValueError: an entry has an empty source, or a tag that is not listed.
    """
    rest = iter(entries)
    with atomic_folder(folder) as unfinished:
        chunks = iter(lambda: list(islice(rest, ENCODED)), [])
        if not extend_corpus(unfinished, chunks, source, target, tags):
            raise UserError(f"{folder}: there is nothing to write into it")


def extend_corpus(
    folder: Path,
    chunks: Iterable[list[Entry]],
    source: Vocabulary,
    target: Vocabulary,
    tags: Sequence[str] = (),
    counts: Mapping[str, int] | None = None,
    mark: Callable[[dict[str, int]], None] | None = None,
) -> int:
    """Write a corpus into a folder, or go on with one; how it is parted into chunks changes no byte.

    Args:
        folder: where it is.
        chunks: the entries that are not in it yet, some at a time; see :func:`write_corpus`.
        source: encodes the sources.
        target: encodes the targets.
        tags: every tag.
        counts: how many numbers each file held when the last chunk was marked; what is behind them is cut off.
        mark: is told that, when a chunk is on the disk.

    Returns:
        how many rows it has.

    Raises:
        UserError: a file has fewer numbers than it is to have.
    """
    files = _write(folder, chunks, (source, target), tags, counts or {}, mark)
    rows: int = files["source.offsets"]["count"] - 1
    header = {"format": FORMAT, "rows": rows, **_origin(source, target, tags), "files": files}
    (folder / HEADER).write_text(json.dumps(header, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return rows


def read_corpus(folder: Path, source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()) -> PairDataset:
    """Map what :func:`write_corpus` wrote with these vocabularies and tags.

    Raises:
        UserError: the folder is missing, not whole, of another format, or was written with other symbols or tags.
    """
    header, asked = _read_header(folder), _origin(source, target, tags)
    for key, what in (("source", "source symbols"), ("target", "target symbols"), ("tags", "tags")):
        if header[key] != asked[key]:
            raise UserError(f"{folder}: was written with other {what}; {ANEW}")
    return _map(folder.absolute())


def _origin(source: Vocabulary, target: Vocabulary, tags: Sequence[str]) -> dict[str, Any]:
    """Say what the ids stand for, in few words."""
    origin: dict[str, Any] = {
        side: {
            "symbols": len(vocabulary),
            "fingerprint": hashlib.sha256(json.dumps(vocabulary.symbols).encode()).hexdigest()[:16],
        }
        for side, vocabulary in zip(SIDES, (source, target), strict=True)
    }
    return origin | {"tags": list(tags)}


class _File:
    """A file of numbers that grows, and the hash of what it holds."""

    def __init__(self, path: Path, dtype: str, stack: ExitStack, count: int = 0) -> None:
        self.stream = stack.enter_context(path.open("r+b" if count else "wb"))
        self.dtype = dtype
        self.count = count
        self.hash = hashlib.sha256()
        self._pass_over(path, count * np.dtype(dtype).itemsize)

    def _pass_over(self, path: Path, size: int) -> None:
        """Take up the first ``size`` bytes, and cut off the others."""
        while size and (some := self.stream.read(min(size, HASHED))):
            self.hash.update(some)
            size -= len(some)
        if size:
            raise UserError(f"{path}: lacks {size} bytes of what was written; {ANEW}")
        self.stream.truncate()

    def settle(self) -> None:
        """Wait until all of it is on the disk."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def append(self, numbers: npt.ArrayLike) -> None:
        narrow = np.asarray(numbers, dtype=self.dtype)
        self.stream.write(narrow.data)
        self.hash.update(narrow.data)
        self.count += len(narrow)

    def described(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "count": self.count, "sha256": self.hash.hexdigest()}


def _narrow(count: int) -> str:
    return "<u2" if count <= 2**16 else "<i4"


def _write(
    folder: Path,
    chunks: Iterable[list[Entry]],
    vocabularies: tuple[Vocabulary, Vocabulary],
    tags: Sequence[str],
    counts: Mapping[str, int],
    mark: Callable[[dict[str, int]], None] | None,
) -> dict[str, dict[str, Any]]:
    """Write ids, offsets and tags; return the files with their types, counts and hashes."""
    types = {f"{side}.ids": _narrow(len(vocabulary)) for side, vocabulary in zip(SIDES, vocabularies, strict=True)}
    types |= {f"{side}.offsets": OFFSETS for side in SIDES} | ({"tags": _narrow(len(tags))} if tags else {})
    with ExitStack() as stack:
        files = {name: _File(folder / name, dtype, stack, counts.get(name, 0)) for name, dtype in types.items()}
        for side in SIDES:
            if not files[f"{side}.offsets"].count:
                files[f"{side}.offsets"].append([0])
        for chunk in chunks:
            if not all(entry[0] for entry in chunk):
                raise ValueError("an entry has an empty source")
            for number, side in enumerate(SIDES):
                encode = partial(vocabularies[number].encode, end=side == "target")
                _append(files, side, [encode(entry[number]) for entry in chunk])
            if tags:
                files["tags"].append(number_tags([entry[2] for entry in chunk], tags))
            chunk.clear()  # before the next one is made
            if mark:
                for file in files.values():
                    file.settle()
                mark({name: file.count for name, file in files.items()})
    described = {name: file.described() for name, file in files.items()}
    if tags:
        described["rows_by_tag"], described["tag_offsets"] = _sort_by_tag(folder, described["tags"], len(tags))
    return described


def _append(files: dict[str, _File], side: str, sequences: list[list[int]]) -> None:
    flat, offsets = files[f"{side}.ids"], files[f"{side}.offsets"]
    offsets.append(flat.count + np.cumsum([len(sequence) for sequence in sequences]))
    flat.append(list(chain.from_iterable(sequences)))


def _sort_by_tag(folder: Path, described: dict[str, Any], count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the numbers of the rows tag after tag, and where each tag begins: a counting sort in two passes."""
    tags = np.memmap(folder / "tags", described["dtype"], "r")
    pieces = range(0, len(tags), SORTED)
    counts = sum(np.bincount(tags[piece : piece + SORTED], minlength=count) for piece in pieces)
    offsets = np.append(0, np.cumsum(counts)).astype(OFFSETS)
    (folder / "tag_offsets").write_bytes(offsets.tobytes())
    rows = np.memmap(folder / "rows_by_tag", OFFSETS, "w+", shape=len(tags))
    written = offsets[:-1].copy()
    for piece in pieces:
        some = np.asarray(tags[piece : piece + SORTED])
        for tag in np.unique(some).tolist():
            found = np.flatnonzero(some == tag)
            rows[written[tag] : written[tag] + len(found)] = piece + found
            written[tag] += len(found)
    rows.flush()
    return {"dtype": OFFSETS, "count": len(tags)}, {"dtype": OFFSETS, "count": count + 1}


def _read_header(folder: Path) -> Header:
    """Read the header and hold the files to it."""
    path = folder / HEADER
    if not path.is_file():
        raise UserError(f"{path}: no such file: {folder} is no corpus, or one that was never finished")
    try:
        header: Header = read_json(path)
    except UserError as error:
        raise UserError(f"{path}: is no header of a corpus; {ANEW}") from error
    try:
        if header["format"] != FORMAT:
            raise UserError(
                f"{path}: has format {header['format']}, and this attnx reads {FORMAT}; update attnx, or {ANEW}"
            )
        sizes = {name: file["count"] * np.dtype(file["dtype"]).itemsize for name, file in header["files"].items()}
        # What is read later is missed now, and what tells these rows from others.
        needed = [f"{side}.{kind}" for side in SIDES for kind in KINDS] + ["tags"] * ("tags" in sizes)
        _ = [header[what] for what in (*SIDES, "tags")], [header["files"][name]["sha256"] for name in needed]
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: is no header of a corpus; {ANEW}") from error
    for name, size in sizes.items():
        found = (folder / name).stat().st_size if (folder / name).is_file() else 0
        if found != size:
            raise UserError(f"{folder / name}: holds {found} bytes instead of {size}; {ANEW}")
    return header


def _map(folder: Path) -> PairDataset:
    """Map the files; another process maps them itself."""
    files = _read_header(folder)["files"]
    # Plain views: slices of NumPy's own class of maps are slow to make.
    maps = {name: np.asarray(np.memmap(folder / name, file["dtype"], "r")) for name, file in files.items()}
    source, target = (Ragged(maps[f"{side}.ids"], maps[f"{side}.offsets"]) for side in SIDES)
    by_tag = Ragged(maps["rows_by_tag"], maps["tag_offsets"]) if "tags" in maps else None
    # The header holds the hashes of the files, so it stands for them.
    pinned = hashlib.sha256((folder / HEADER).read_bytes()).hexdigest()[:16]
    again = partial(_map, folder)
    return PairDataset(source, target, tags=maps.get("tags"), by_tag=by_tag, reopen=again, pinned=pinned)

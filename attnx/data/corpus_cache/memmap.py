"""Memory-mapped corpora: rows encoded once into flat files of a folder, for corpora larger than memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
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
    with atomic_folder(folder) as unfinished:
        files = write_rows(unfinished, entries, source, target, tags)
        if not files["source.offsets"]["count"]:
            raise UserError(f"{folder}: there are no entries to write")
        if tags:
            files |= sort_by_tag(unfinished, [unfinished], len(tags))
        rows = files["source.offsets"]["count"] - 1
        write_header(unfinished, {"rows": rows, **describe_ids(source, target, tags), "files": files})


def write_rows(
    folder: Path, entries: Iterable[Entry], source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()
) -> dict[str, Header]:
    """Encode entries into files of an empty folder, see :func:`write_corpus`; return the files' headers."""
    dtypes = {"source.ids": _narrow_dtype(len(source)), "target.ids": _narrow_dtype(len(target))}
    dtypes |= {f"{side}.offsets": OFFSETS_DTYPE for side in SIDES}
    dtypes |= {"tags": _narrow_dtype(len(tags))} if tags else {}
    stream = iter(entries)
    with ExitStack() as stack:
        files = {name: _GrowingFile(folder / name, dtype, stack) for name, dtype in dtypes.items()}
        while chunk := list(islice(stream, ROWS_PER_CHUNK)):
            _append_chunk(files, chunk, source, target, tags)
        return {name: file.header() for name, file in files.items()}


def write_header(folder: Path, header: Header) -> None:
    """Write the header of a corpus."""
    text = json.dumps({"format": ROWS_FORMAT, **header}, ensure_ascii=False, indent=2)
    (folder / HEADER).write_text(f"{text}\n", encoding="utf-8")


def sort_by_tag(folder: Path, shards: Sequence[Path], num_tags: int) -> dict[str, Header]:
    """Write the row indices tag after tag, and where each tag starts, of the rows in all shards."""
    parts = [np.memmap(shard / "tags", _narrow_dtype(num_tags), "r") for shard in shards]
    starts = np.cumsum([0, *map(len, parts)])
    offsets = [0]
    with (folder / "rows_by_tag").open("wb") as stream:
        for tag in range(num_tags):
            for first, tags in zip(starts.tolist(), parts, strict=False):
                for start in range(0, len(tags), ROWS_PER_SORT):
                    rows = first + start + np.flatnonzero(tags[start : start + ROWS_PER_SORT] == tag)
                    stream.write(rows.astype(OFFSETS_DTYPE).tobytes())
            offsets.append(stream.tell() // np.dtype(OFFSETS_DTYPE).itemsize)
    np.array(offsets, OFFSETS_DTYPE).tofile(folder / "tag_offsets")
    counts = {"rows_by_tag": int(starts[-1]), "tag_offsets": len(offsets)}
    return {name: {"dtype": OFFSETS_DTYPE, "count": count} for name, count in counts.items()}


def read_corpus(folder: Path, source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()) -> PairDataset:
    """Map what :func:`write_corpus` wrote; a UserError if it is incomplete, or of other symbols or tags."""
    check_ids(folder, read_header(folder), source, target, tags)
    return map_files(folder.absolute())


def check_ids(folder: Path, header: Header, source: Vocabulary, target: Vocabulary, tags: Sequence[str]) -> None:
    """Raise a UserError if a corpus was written with other symbols or tags."""
    for key, value in describe_ids(source, target, tags).items():
        if header[key] != value:
            what = key if key == "tags" else f"{key} symbols"
            raise UserError(f"{folder}: was written with other {what}; {DELETE_FOLDER}")


def describe_ids(source: Vocabulary, target: Vocabulary, tags: Sequence[str]) -> dict[str, Any]:
    """Return hashes of the vocabularies, and the tags."""
    hashes = [hashlib.sha256(json.dumps(side.symbols).encode()).hexdigest()[:16] for side in (source, target)]
    return {"source": hashes[0], "target": hashes[1], "tags": list(tags)}


class _GrowingFile:
    """A new file of numbers that is appended to."""

    def __init__(self, path: Path, dtype: str, stack: ExitStack) -> None:
        self.stream = stack.enter_context(path.open("wb"))
        self.dtype, self.count, self.sha256 = dtype, 0, hashlib.sha256()

    def append(self, numbers: npt.ArrayLike) -> None:
        narrow = np.asarray(numbers, dtype=self.dtype)
        self.stream.write(narrow.data)
        self.sha256.update(narrow.data)
        self.count += len(narrow)

    def header(self) -> Header:
        return {"dtype": self.dtype, "count": self.count, "sha256": self.sha256.hexdigest()}


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


def read_header(folder: Path, keys: Collection[str] = (), files: Collection[str] = FILES) -> Header:
    """Read the header and check the files' sizes against it; a UserError if it lacks some of ``keys`` or ``files``."""
    path = folder / HEADER
    if not path.is_file():
        raise UserError(f"{path}: no such file: {folder} is not a corpus, or was never finished")
    try:
        header: Header = read_json(path)
        version = header["format"]
        listed = header["files"] if version == ROWS_FORMAT else {}
        sizes = {name: file["count"] * np.dtype(file["dtype"]).itemsize for name, file in listed.items()}
        if version == ROWS_FORMAT and not (header.keys() >= {*SIDES, "tags", *keys} and sizes.keys() >= set(files)):
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


def map_files(folder: Path) -> PairDataset:
    """Map the files; another process maps them for itself."""
    files = read_header(folder)["files"]
    # Plain views: slices of np.memmap are slow to make.
    maps = {name: np.asarray(np.memmap(folder / name, file["dtype"], "r")) for name, file in files.items()}
    source, target = (Ragged(maps[f"{side}.ids"], maps[f"{side}.offsets"]) for side in SIDES)
    return PairDataset(
        source,
        target,
        tags=maps.get("tags"),
        tag_rows=Ragged(maps["rows_by_tag"], maps["tag_offsets"]) if "rows_by_tag" in maps else None,
        reopen=partial(map_files, folder),
        # The header contains the files' hashes.
        known_fingerprint=hashlib.sha256((folder / HEADER).read_bytes()).hexdigest()[:16],
    )

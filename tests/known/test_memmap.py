"""Memory-mapped corpora: they read back as written, in the smallest integer type, complete or not at all."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.data.corpus_cache import memmap
from attnx.data.corpus_cache.memmap import Entry, read_corpus, write_corpus
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError

LETTERS = Vocabulary.of(["abc"])  # a 4, b 5, c 6
PHONES = Vocabulary.of([["X", "Y"]])  # X 4, Y 5
TAGS = ("de", "et", "fi")
ENTRIES: list[Entry] = [
    (("a", "b", "c"), ("X",), "fi"),
    (("c",), ("Y", "Y"), "et"),
    (("b", "?"), ("X", "Z"), "fi"),
    (("a",), (), "et"),
    (("c", "a"), ("X",), "fi"),
]
SOURCES = [[4, 5, 6], [6], [5, 3], [4], [6, 4]]
TARGETS = [[4, 2], [5, 5, 2], [4, 3, 2], [2], [4, 2]]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The five entries, written."""
    write_corpus(tmp_path / "corpus", iter(ENTRIES), LETTERS, PHONES, TAGS)
    return tmp_path / "corpus"


def message(folder: Path, source: Vocabulary = LETTERS, target: Vocabulary = PHONES, tags: Any = TAGS) -> str:
    """What the reader says of a folder."""
    with pytest.raises(UserError) as caught:
        read_corpus(folder, source, target, tags)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("encoded", "sorted_"), [(1, 1), (2, 3), (5, 5), (7, 7)])
def test_a_written_corpus_reads_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: int, sorted_: int
) -> None:
    """However many rows are encoded or sorted at once."""
    monkeypatch.setattr(memmap, "ROWS_PER_CHUNK", encoded)
    monkeypatch.setattr(memmap, "ROWS_PER_SORT", sorted_)
    write_corpus(tmp_path / "corpus", iter(ENTRIES), LETTERS, PHONES, TAGS)
    rows = read_corpus(tmp_path / "corpus", LETTERS, PHONES, TAGS)
    assert len(rows) == 5
    assert [rows[i].source.tolist() for i in range(5)] == SOURCES
    assert [rows[i].target.tolist() for i in range(5)] == TARGETS
    assert [rows[i].row_index for i in range(5)] == [0, 1, 2, 3, 4]
    assert [rows[i].tag for i in range(5)] == [2, 1, 2, 1, 2]
    assert [rows.rows_by_tag().row(tag).tolist() for tag in range(3)] == [[], [1, 3], [0, 2, 4]]
    assert rows.lengths(np.arange(5)).tolist() == [[3, 2], [1, 3], [2, 3], [1, 1], [2, 2]]
    assert collate([rows[1], rows[2]]).target.tolist() == [[5, 5, 2], [4, 3, 2]]


def test_a_corpus_may_have_no_tags(tmp_path: Path) -> None:
    """Those of the entries are not looked at, and all rows have number 0."""
    write_corpus(tmp_path / "corpus", ENTRIES, LETTERS, PHONES)
    rows = read_corpus(tmp_path / "corpus", LETTERS, PHONES)
    assert rows.tags.tolist() == [0] * 5
    assert rows[4].tag == 0


def test_batches_by_tag(corpus: Path) -> None:
    """At an infinite temperature the two tags that have rows are drawn 3 and 2 times; all batches come in a loader."""
    rows = read_corpus(corpus, LETTERS, PHONES, TAGS)
    batches = BucketBatches(rows, tokens=6, temperature=float("inf"))
    loader = DataLoader(rows, batch_sampler=batches, collate_fn=collate, num_workers=1)
    assert sorted(tag for batch in loader for tag in batch.tag.tolist()) in ([1, 1, 1, 2, 2], [1, 1, 2, 2, 2])


def test_ids_take_two_bytes(corpus: Path) -> None:
    """9 source ids, 11 target ids, twice 6 offsets, 5 tags, 5 row numbers and 4 offsets for the tags."""
    sizes = {file.name: file.stat().st_size for file in corpus.iterdir() if file.name != "corpus.json"}
    assert sizes == {
        "source.ids": 9 * 2,
        "target.ids": 11 * 2,
        "source.offsets": 6 * 8,
        "target.offsets": 6 * 8,
        "tags": 5 * 2,
        "rows_by_tag": 5 * 8,
        "tag_offsets": 4 * 8,
    }


@pytest.mark.parametrize(("symbols", "size"), [(2**16, 2), (2**16 + 1, 4)])
def test_large_ids_take_four_bytes(tmp_path: Path, symbols: int, size: int) -> None:
    """The greatest id comes back."""
    many = Vocabulary(LETTERS.symbols + tuple(str(number) for number in range(symbols - len(LETTERS))))
    write_corpus(tmp_path / "corpus", [((many.symbols[-1],), ("X",), "")], many, PHONES)
    rows = read_corpus(tmp_path / "corpus", many, PHONES)
    assert rows[0].source.tolist() == [symbols - 1]
    assert rows.sources.flat.itemsize == size
    assert rows.targets.flat.itemsize == 2


def test_the_files_are_mapped_and_cannot_be_written(corpus: Path) -> None:
    """Every array is a view of a map."""
    rows = read_corpus(corpus, LETTERS, PHONES, TAGS)
    for array in (*rows.sources, *rows.targets, rows.tags, *rows.rows_by_tag()):
        assert isinstance(array.base, np.memmap)
        assert not array.flags.writeable


def test_a_mapped_corpus_pickles_as_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred bytes for 1009 rows; the copy maps the files itself, wherever its process stands."""
    monkeypatch.chdir(tmp_path)
    write_corpus(Path("corpus"), ENTRIES[:1] * 1009, LETTERS, PHONES)
    pickled = pickle.dumps(read_corpus(Path("corpus"), LETTERS, PHONES))
    assert len(pickled) < 200 + len(str(tmp_path))
    monkeypatch.chdir("/")
    copy = pickle.loads(pickled)
    assert len(copy) == 1009
    assert copy[1008].source.tolist() == [4, 5, 6]
    assert isinstance(copy.sources.flat.base, np.memmap)


def test_entries_are_written_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three at a time: when the seventh is read, six are written or being written."""
    monkeypatch.setattr(memmap, "ROWS_PER_CHUNK", 3)
    encoded: list[int] = []
    gathered = memmap._append

    def counting(files: Any, side: str, sequences: list[list[int]]) -> None:
        encoded.append(len(sequences))
        gathered(files, side, sequences)

    def entries() -> Iterator[Entry]:
        for number in range(7):
            assert sum(encoded) == 2 * (number - number % 3)
            yield ENTRIES[0]

    monkeypatch.setattr(memmap, "_append", counting)
    write_corpus(tmp_path / "corpus", entries(), LETTERS, PHONES)
    assert encoded == [3, 3, 3, 3, 1, 1]


def test_an_invalid_entry_leaves_no_files(tmp_path: Path) -> None:
    """Neither the folder nor what was to become it."""

    def entries() -> Iterator[Entry]:
        yield from ENTRIES
        raise UserError("words.tsv:6: no tab")

    with pytest.raises(UserError, match="no tab"):
        write_corpus(tmp_path / "corpus", entries(), LETTERS, PHONES)
    with pytest.raises(ValueError, match="an entry has an empty source"):
        write_corpus(tmp_path / "corpus", [*ENTRIES, ((), ("X",), "fi")], LETTERS, PHONES)
    with pytest.raises(ValueError, match="the tag 'fi' is none of de, et"):
        write_corpus(tmp_path / "corpus", ENTRIES, LETTERS, PHONES, ("de", "et"))
    with pytest.raises(UserError, match="there are no entries to write"):
        write_corpus(tmp_path / "new" / "corpus", [], LETTERS, PHONES)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write_corpus(tmp_path / "corpus", ENTRIES, LETTERS, PHONES)
    assert len(read_corpus(tmp_path / "corpus", LETTERS, PHONES)) == 5


def test_an_existing_folder_is_left_unchanged(corpus: Path) -> None:
    """It may belong to another program."""
    original = (corpus / "corpus.json").read_bytes()
    with pytest.raises(UserError, match="exists already; delete the folder and write it anew"):
        write_corpus(corpus, ENTRIES[:1], LETTERS, PHONES)
    assert (corpus / "corpus.json").read_bytes() == original


def test_two_processes_may_write_the_same_corpus(tmp_path: Path) -> None:
    """The one that comes second leaves the other's and takes its own away."""

    def entries() -> Iterator[Entry]:
        yield from ENTRIES
        write_corpus(tmp_path / "corpus", ENTRIES[:2], LETTERS, PHONES)

    write_corpus(tmp_path / "corpus", entries(), LETTERS, PHONES)
    assert len(read_corpus(tmp_path / "corpus", LETTERS, PHONES)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    """A file stands where the folder's parent should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/corpus: cannot be written: "):
        write_corpus(tmp_path / "file" / "corpus", ENTRIES, LETTERS, PHONES)


def test_other_symbols_are_refused(corpus: Path) -> None:
    """Ids would stand for something else."""
    start = f"{corpus}: was written with other "
    end = "; delete the folder and write it again"
    assert message(corpus, source=Vocabulary.of(["abd"])) == f"{start}source symbols{end}"
    assert message(corpus, target=Vocabulary.of([["X", "Y", "Z"]])) == f"{start}target symbols{end}"
    assert message(corpus, tags=("de", "fi", "et")) == f"{start}tags{end}"


def test_the_fingerprint_depends_on_the_rows(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they were written and wherever they are; another symbol or tag makes another one, and nothing is read."""

    def fingerprint(name: str) -> str:
        rows = read_corpus(tmp_path / name, LETTERS, PHONES, TAGS)
        rows.sources = rows.targets = None  # type: ignore[assignment]
        return rows.fingerprint()

    monkeypatch.setattr(memmap, "ROWS_PER_CHUNK", 2)
    changed_entries: dict[str, Entry] = {
        "same": ENTRIES[4],
        "symbol": (("c", "b"), ("X",), "fi"),
        "tag": (*ENTRIES[4][:2], "de"),
    }
    for name, last in changed_entries.items():
        write_corpus(tmp_path / name, [*ENTRIES[:4], last], LETTERS, PHONES, TAGS)
    assert fingerprint("same") == fingerprint("corpus")
    assert len({fingerprint(name) for name in changed_entries}) == 3


def test_a_missing_and_an_unfinished_folder_are_reported(corpus: Path, tmp_path: Path) -> None:
    """Both have no header."""
    end = "is not a corpus, or was never finished"
    assert message(tmp_path / "no") == f"{tmp_path}/no/corpus.json: no such file: {tmp_path}/no {end}"
    (corpus / "corpus.json").unlink()
    assert message(corpus) == f"{corpus}/corpus.json: no such file: {corpus} {end}"


@pytest.mark.parametrize("name", ["source.ids", "target.offsets", "rows_by_tag"])
def test_a_truncated_or_missing_file_is_reported(corpus: Path, name: str) -> None:
    """It is named, with what it lacks."""
    path = corpus / name
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    end = f"expected {size}; delete the folder and write it again"
    assert message(corpus) == f"{path}: has {size - 1} bytes, {end}"
    path.unlink()
    assert message(corpus) == f"{path}: has 0 bytes, {end}"


@pytest.mark.parametrize(
    "text", ["", '{"format": 1, "rows', "[]", "7", "{}", '{"format": 1}', '{"format": 1, "files": 3}']
)
def test_a_broken_header_is_reported(corpus: Path, text: str) -> None:
    """Cut short, or of another kind altogether."""
    (corpus / "corpus.json").write_text(text)
    assert (
        message(corpus) == f"{corpus}/corpus.json: is not the header of a corpus; delete the folder and write it again"
    )


@pytest.mark.parametrize("missing", ["source", "tags", "files", "target.ids"])
def test_an_incomplete_header_is_reported(corpus: Path, missing: str) -> None:
    """It is reported before the file is used."""
    path = corpus / "corpus.json"
    header = json.loads(path.read_text())
    (header["files"] if "." in missing else header).pop(missing)
    path.write_text(json.dumps(header))
    assert message(corpus).startswith(f"{path}: is not the header of a corpus")


def test_a_newer_format_is_reported(corpus: Path) -> None:
    """Its header may hold anything else."""
    (corpus / "corpus.json").write_text(json.dumps({"format": 2}))
    assert message(corpus) == (
        f"{corpus}/corpus.json: has format 2, but this attnx reads 1; update attnx, or delete the folder and write it "
        "again"
    )


def test_a_corpus_may_be_moved(corpus: Path, tmp_path: Path) -> None:
    """It knows nothing of its place."""
    shutil.move(corpus, tmp_path / "elsewhere")
    assert len(read_corpus(tmp_path / "elsewhere", LETTERS, PHONES, TAGS)) == 5

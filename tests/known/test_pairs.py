"""Word lists: what a valid file means, and the line that an invalid one is refused at."""

import gzip
from pathlib import Path

import pytest

from attnx.data.examples import Pair, read_pairs
from tests.refusal import refusal_message


def write(folder: Path, content: bytes, name: str = "words.tsv") -> Path:
    """Write ``content`` into a file and return its path."""
    path = folder / name
    path.write_bytes(content)
    return path


def test_columns_and_repeated_words_become_references(tmp_path):
    """The word `a` stands on two lines and in three columns; two of its pronunciations are equal."""
    path = write(tmp_path, b"a\tAH\tEY\nbe\tB  IY\na\tEY\tAA\n")
    assert read_pairs(path) == [
        Pair(("a",), (("AH",), ("EY",), ("AA",))),
        Pair(("b", "e"), (("B", "IY"),)),
    ]


def test_byte_order_marks_line_endings_and_blank_lines_are_tolerated(tmp_path):
    """A byte order mark, CRLF, blank lines, spaces around a column, no newline at the end."""
    path = write(tmp_path, b"\xef\xbb\xbfa\tAH\r\n\r\n  \n b \t B IY ")
    assert read_pairs(str(path)) == [Pair(("a",), (("AH",),)), Pair(("b",), (("B", "IY"),))]


def test_words_are_split_into_code_points(tmp_path):
    """A letter of two bytes is one symbol."""
    assert read_pairs(write(tmp_path, "né\tn e\n".encode()))[0].source == ("n", "é")


def test_gzip_reads_like_plain(tmp_path):
    """Two gzip members in one file are one text."""
    path = write(tmp_path, gzip.compress(b"a\tAH\n") + gzip.compress(b"b\tB\n"), "words.tsv.gz")
    assert [pair.source for pair in read_pairs(path)] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"caf\xe9\tk", "byte 0xe9 at byte 4 of the line is not UTF-8; save the file as UTF-8: 'caf\ufffd\\tk'"),
        (b"cat", "no tab in 'cat'; expected a word, a tab and a pronunciation"),
        (b"\tK", r"the word (the first column) is empty in '\tK'"),
        (b"\t", r"the word (the first column) is empty in '\t'"),
        (b"cat\t", "the pronunciation in column 2 of 'cat' is empty"),
        (b"cat\tK AE T\t \tK", "the pronunciation in column 3 of 'cat' is empty"),
    ],
)
@pytest.mark.parametrize(
    ("name", "lines_before", "number"),
    [("words.tsv", b"", 1), ("words.tsv", b"a\tAH\r\n\n", 3), ("words.tsv.gz", b"a\tAH\n" * 40_000, 40_001)],
)
def test_a_bad_line_is_reported_with_its_number(tmp_path, line, wrong, name, lines_before, number):
    """The whole message is `file:line: what is wrong`, with blank lines counted, far into a long file too."""
    content = lines_before + line + b"\nb\tB\n"
    path = write(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    assert refusal_message(read_pairs, path) == f"{path}:{number}: {wrong}"


def test_a_bad_byte_after_a_byte_order_mark_is_located(tmp_path):
    """The mark is no part of the text, so the byte is the second."""
    path = write(tmp_path, b"\xef\xbb\xbfa\xff\tAH\n")
    assert refusal_message(read_pairs, path).startswith(f"{path}:1: byte 0xff at byte 2 of the line")


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
def test_a_file_without_pairs_is_refused(tmp_path, content):
    """An empty file is a mistake, plain or packed."""
    for name, data in (("words.tsv", content), ("words.tsv.gz", gzip.compress(content))):
        path = write(tmp_path, data, name)
        assert refusal_message(read_pairs, path).startswith(f"{path}: holds no pairs")


def test_a_missing_file_and_a_folder_are_reported(tmp_path):
    """Both are named, packed or not."""
    for name in ("none.tsv", "none.tsv.gz"):
        assert refusal_message(read_pairs, tmp_path / name) == f"{tmp_path / name}: no such file"
    for folder in (tmp_path, tmp_path / "folder.gz"):
        folder.mkdir(exist_ok=True)
        assert refusal_message(read_pairs, folder) == f"{folder}: is a folder, expected a TSV file"


PACKED = gzip.compress(b"a\tAH\n" * 1_000, mtime=0)  # the same bytes in every process that collects tests


@pytest.mark.parametrize(
    "content", [b"a\tAH\n", PACKED[:-11], PACKED[:15] + b"\xff" * 8 + PACKED[23:], PACKED[:-8] + b"\0" * 8]
)
def test_a_broken_gzip_file_is_reported(tmp_path, content):
    """Not packed at all, cut short, overwritten inside, wrong checksum."""
    path = write(tmp_path, content, "words.tsv.gz")
    assert refusal_message(read_pairs, path).startswith(f"{path}: is a broken gzip file: ")

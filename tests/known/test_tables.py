"""Tables and feature files: valid files, and the message for an invalid one."""

import gzip
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.readers.feature_matrices import FeatureMatrix, read_matrix
from attnx.data.readers.tsv import PairReader, join_symbols, split_text
from attnx.errors import UserError
from tests.refusal import refusal_message, refused

NUMBERS = [[1.5, -2.0], [0.0, 1e3], [7.0, 0.25]]  # three steps of two features, exact in 32 bits
CSV = "x,y\n1.5,-2\n0,1e3\n7,.25\n"


def write(path: Path, text: str) -> Path:
    """Write a text file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def matrix_refusal(path: Path, step_names: str | None = None) -> str:
    """The message about a feature file, after its path."""
    message = refusal_message(read_matrix, path, step_names)
    assert message.startswith(f"{path}:")
    return message.removeprefix(f"{path}:").strip()


def holds(actual: FeatureMatrix, steps: tuple[str, ...] = ("0", "1", "2"), columns: tuple[str, ...] = ()) -> bool:
    """Whether a file held the three steps."""
    assert actual.features.dtype == np.float64
    assert actual.features.tolist() == NUMBERS
    return (actual.steps, actual.columns) == (steps, columns)


# Tables.


def test_fields_are_split_into_symbols():
    """Leading zeros go, and are not needed to tell numbers apart."""
    assert split_text(" a b", "characters") == (" ", "a", " ", "b")
    assert split_text(" a  b.c\u00a0d", "words") == ("a", "b.c", "d")
    assert split_text("0 007  70 000", "ids") == ("0", "7", "70", "0")
    assert join_symbols(("a", " ", "b"), "characters") == "a b"
    assert join_symbols(("a", "b"), "words") == join_symbols(split_text("a  b", "words"), "words") == "a b"


@pytest.mark.parametrize("wrong", ["x", "1.5", "-1", "+1", "1e3", "1_000", "\u0663"])
def test_an_id_is_a_whole_number(wrong):
    """In the digits 0 to 9."""
    with pytest.raises(UserError, match="is not an id: ids are whole numbers") as caught:
        split_text(f"12 {wrong} y", "ids")
    assert str(caught.value).startswith(repr(wrong))


def test_equal_sources_have_several_references(tmp_path):
    """Equal as symbols, not as they are spaced; a reference that is there twice counts once."""
    path = write(tmp_path / "a.tsv", "\ufeffx  y\tA\r\n\n z\tA B \r\nx y\tB\nx y\t A\n")
    assert PairReader("words", "words").read(path) == {
        ("x y", ""): Pair(("x", "y"), (("A",), ("B",))),
        ("z", ""): Pair(("z",), (("A", "B"),)),
    }


def test_each_side_has_its_own_tokenization(tmp_path):
    """Packed files too."""
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"3 May\t05 3\n"))
    assert list(PairReader("characters", "ids").read(path).values()) == [
        Pair(("3", " ", "M", "a", "y"), (("5", "3"),), identity=("3", "May"))
    ]


def test_tags_distinguish_equal_sources(tmp_path):
    path = write(tmp_path / "a.tsv", "x\tA\tfr\nx\tB\tit\nx\tC\tfr\n")
    result = PairReader("words", "words", tagged=True).read(path)
    assert result == {
        ("x", "fr"): Pair(("x",), (("A",), ("C",)), "fr"),
        ("x", "it"): Pair(("x",), (("B",),), "it"),
    }


def test_a_table_names_files_of_features(tmp_path):
    """Seen from its own folder; a file that is named twice has two references."""
    write(tmp_path / "in" / "one.csv", CSV)
    np.save(tmp_path / "two.npy", np.array(NUMBERS[:1]))
    path = write(tmp_path / "a.tsv", f"in/one.csv\tA\n{tmp_path / 'two.npy'}\tB\nin/one.csv\tC\n")
    first, two = PairReader("features", "words").read(path).items()
    assert first[0] == ("in/one.csv", "")
    assert first[1].source == ("0", "1", "2")
    assert (first[1].name, two[1].name) == ("in/one.csv", str(tmp_path / "two.npy"))
    assert first[1].references == (("A",), ("C",))
    assert first[1].features.tolist() == NUMBERS
    assert two[1].features.tolist() == NUMBERS[:1]


def test_targets_may_be_feature_files(tmp_path):
    """Whose columns are their own; the references are then the names of their steps."""
    write(tmp_path / "in.csv", "at,x,y,z\n9:00,1,2,3\n")
    write(tmp_path / "out" / "a.csv", "when,x,y\n7:00,1.5,-2\n7:05,0,1e3\n7:10,7,.25\n")
    table = PairReader("features", "features", step_names="at", target_step_names="when")
    (pair,) = table.read(write(tmp_path / "a.tsv", "in.csv\tout/a.csv\n")).values()
    assert pair.source == ("9:00",)
    assert pair.references == (("7:00", "7:05", "7:10"),)
    assert pair.target.tolist() == NUMBERS
    assert (table.sources.columns, table.targets.columns) == (("x", "y", "z"), ("x", "y"))
    table = PairReader("words", "features", tagged=True, target_step_names="when")
    result = table.read(write(tmp_path / "b.tsv", "a  b\tout/a.csv\tfr\na b\tout/a.csv\tit\n"))
    assert list(result) == [("a b", "fr"), ("a b", "it")]
    assert [(pair.source, pair.name, pair.features) for pair in result.values()] == [(("a", "b"), "", None)] * 2


def test_a_source_has_one_target_of_features(tmp_path):
    """Even if both are equal: numbers have only one reference."""
    write(tmp_path / "out.csv", CSV)
    path = write(tmp_path / "a.tsv", "a b\tout.csv\n\na  b\tout.csv\n")
    message = "a second target of 'a b'; a source has only one if targets are features; remove one"
    with refused(rf"{path}:3: {message}; the line is 'a  b\tout.csv'"):
        PairReader("words", "features").read(path)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("12", "1 column; expected whole numbers, a tab, a text"),
        ("12\tA\tB", "3 columns; expected whole numbers, a tab, a text; if the third is a tag, set task.tagged=true"),
        ("12\tA\tB\tC", "4 columns; expected whole numbers, a tab, a text"),
        ("\tA", "column 1 is empty; expected whole numbers"),
        ("12\t ", "column 2 is empty; expected a text"),
        ("12 B\tA", "'B' is not an id: ids are whole numbers, 0 or more, separated by spaces"),
    ],
)
def test_a_bad_line_is_reported_with_its_number(tmp_path, line, wrong):
    path = write(tmp_path / "a.tsv", f"1 2\tA\n\n{line}\n3\tB\n")
    with refused(f"{path}:3: {wrong}; the line is {line!r}"):
        PairReader("ids", "words").read(path)


def test_a_missing_tag_is_reported(tmp_path):
    for line, wrong in (("x\tA", "2 columns"), ("x\tA\t ", "column 3 is empty; expected a tag")):
        path = write(tmp_path / "a.tsv", line)
        with pytest.raises(UserError, match=wrong):
            PairReader("words", "words", tagged=True).read(path)


def test_an_empty_table_is_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "\n  \n")
    with refused(f"{path}: holds no pairs; expected lines of a file of features, a tab, a text"):
        PairReader("features", "words").read(path)
    with pytest.raises(UserError, match=r"none\.tsv: no such file"):
        PairReader("words", "words").read(tmp_path / "none.tsv")


def test_a_bad_file_is_reported_with_both_locations(tmp_path):
    bad = write(tmp_path / "bad.csv", "x,y\n1,2\n1,two\n")
    path = write(tmp_path / "a.tsv", "\nbad.csv\tA\n")
    with refused(f"{path}:2: {bad}:3: 'two' in column 'y' is not a number..."):
        PairReader("features", "words").read(path)
    path = write(tmp_path / "a.tsv", "badly.csv\tA\n")
    near = f"{tmp_path / 'badly.csv'}: no such file; did you mean {bad}?"
    with refused(rf"{path}:1: {near}; the line is 'badly.csv\tA'"):
        PairReader("features", "words").read(path)


def test_all_files_have_the_same_columns(tmp_path):
    """Over all tables that are read; a file without names of columns can only be compared by their number."""
    for name, text in (("a", "x,y\n1,2\n"), ("wide", "1,2,5\n"), ("turned", "y,x\n2,1\n"), ("bare", "1,5\n")):
        write(tmp_path / f"{name}.csv", text)
        write(tmp_path / f"{name}.tsv", f"{name}.csv\tA\n")
    table = PairReader("features", "words")
    for name in ("a", "bare", "a"):
        table.read(tmp_path / f"{name}.tsv")
    for name, wrong in (
        ("wide", f"3 features per step, but {tmp_path / 'a.csv'} has 2"),
        ("turned", f"its columns are y, x, but {tmp_path / 'a.csv'} has x, y"),
    ):
        with refused(f"...{tmp_path / name}.csv: {wrong}..."):
            table.read(tmp_path / f"{name}.tsv")


# Files of features.


def test_a_csv_file_is_read(tmp_path):
    """With a header and without, quoted, with a mark, blank lines and other line ends."""
    assert holds(read_matrix(write(tmp_path / "a.csv", CSV)), columns=("x", "y"))
    assert holds(read_matrix(write(tmp_path / "b.csv", CSV.removeprefix("x,y\n"))))
    text = '\ufeff"x, in mm","y"\r\n\r\n"1.5", -2\r\n0,1e3\r\n\n7,.25'
    assert holds(read_matrix(write(tmp_path / "c.csv", text)), columns=("x, in mm", "y"))


@pytest.mark.parametrize("row", ["0,1,2", "1,2"])
def test_numbers_of_columns_are_neither_names_nor_a_step(tmp_path, row):
    """As pandas writes them for a matrix without names; below names they are data, and so are 0.0 and 1.0."""
    expected = (
        f"1: '{row}' may be numbers of columns, or the first step; write names of columns in its place, or above "
    )
    assert matrix_refusal(write(tmp_path / "a.csv", f"{row}\n{row}\n")) == f"{expected}it if it is data"
    numbers = [float(cell) for cell in row.split(",")]
    names = ",".join("xyz"[: len(numbers)])
    assert read_matrix(write(tmp_path / "b.csv", f"{names}\n{row}\n")).features.tolist() == [numbers]
    floats = ",".join(map(str, numbers))
    assert read_matrix(write(tmp_path / "c.csv", f"{floats}\n")).features.tolist() == [numbers]
    assert read_matrix(write(tmp_path / "d.csv", "0\n1\n")).features.tolist() == [[0], [1]]


def test_a_column_of_a_csv_file_names_the_steps(tmp_path):
    """Wherever it is; spaces in a name are written otherwise, since they stand between names."""
    path = write(tmp_path / "a.csv", "x,time,y\n1.5,1 May 9:00,-2\n0,,1e3\n7,9.5,.25\n")
    assert holds(read_matrix(path, "time"), ("1_May_9:00", "", "9.5"), ("x", "y"))


@pytest.mark.parametrize("packed", [False, True])
def test_a_numpy_file_is_read(tmp_path, packed):
    """Of any kind of numbers; an archive of one array, or with the array `features`."""
    np.save(tmp_path / "a.npy", np.array(NUMBERS, dtype=np.float16))
    assert holds(read_matrix(tmp_path / "a.npy"))
    save = np.savez_compressed if packed else np.savez
    save(tmp_path / "a.npz", anything=np.array(NUMBERS))
    assert holds(read_matrix(tmp_path / "a.npz"))
    save(tmp_path / "b.npz", other=np.zeros(5), features=np.array(NUMBERS), at=np.array([3, 5, 7]))
    assert holds(read_matrix(tmp_path / "b.npz"))
    assert holds(read_matrix(tmp_path / "b.npz", "at"), ("3", "5", "7"))
    np.save(tmp_path / "c.npy", np.array([[True], [False]]))
    assert read_matrix(tmp_path / "c.npy").features.tolist() == [[1], [0]]


def test_a_column_with_a_large_mean_keeps_its_digits(tmp_path):
    """Seconds since 1970, which single precision rounds to multiples of 128."""
    seconds = [1_700_000_000 + number for number in range(5)]
    matrix = read_matrix(write(tmp_path / "a.csv", "".join(f"{second},7\n" for second in seconds)))
    assert matrix.features[:, 0].tolist() == seconds
    scaled = FeatureScaler.of([matrix.features]).encode(matrix.features)[:, 0]
    assert np.diff(scaled).tolist() == pytest.approx([0.5**0.5] * 4, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "holds no numbers; expected a row for each step"),
        ("x,y\n", "holds no numbers; expected a row for each step"),
        ("1,5\n\n1,x\n", "3: 'x' in column 2 is not a number"),
        ("1,time\n", "1: 'time' in column 2 is not a number"),
        (
            "t,x\n9:00,1\n",
            "2: '9:00' in column 't' is not a number; if it names the step, set task.step_names=t "
            "(of targets: task.target_step_names=t)",
        ),
        ("x,y\n1,2\n1, \n", "3: column 'y' is empty; fill it in, or remove the row"),
        ("x\n1\n\n2\n\n", "3: column 'x' is empty; fill it in, or remove the row"),
        (
            "1,2\n1,2,3\n",
            "2: 3 columns, but line 1 has 2: '1,2,3'; quote cells with commas, and write decimals with a point",
        ),
        ("x,y\n1;2,3\n", "2: '1;2' in column 'x' is not a number; columns are separated by commas"),
        ("x,y\n1,2\nnan,2\n", "3: nan in column 'x' is not a finite 32-bit number; fill it in, or remove the row"),
        ("1,5\n\n1,-inf\n", "3: -inf in column 2 is not a finite 32-bit number; fill it in, or remove the row"),
        ("1,1_000\n", "1: '1_000' in column 2 is not a number"),
        ("NA,?\n1,2\n", "1: 'NA' in column 1 is not a number"),
        ("t,t,x\n1,2,3\n", "1: two columns are called 't'; rename one"),
        ("1,1e39\n", "1: 1e+39 in column 2 is not a finite 32-bit number; fill it in, or remove the row"),
        (
            ",x\na,1\n",
            "1: column 1 of the header has no name; give it one, or leave the column out "
            "(pandas: to_csv(..., index=False))",
        ),
    ],
)
def test_a_bad_csv_file_is_reported(tmp_path, text, wrong):
    assert matrix_refusal(write(tmp_path / "a.csv", text)) == wrong


def test_a_column_may_be_called_like_a_gap(tmp_path):
    assert read_matrix(write(tmp_path / "a.csv", "Na,K\n1,2\n")).columns == ("Na", "K")


def test_csv_dialects_are_read(tmp_path):
    """Text behind a quoted cell is part of it; a byte that is not UTF-8, and old line ends, are refused."""
    assert read_matrix(write(tmp_path / "a.csv", '"1,5"x,y\n1,2\n')).columns == ("1,5x", "y")
    (tmp_path / "a.csv").write_bytes(b"1,2\n1,\xff\n")
    assert "2: byte 0xff" in matrix_refusal(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"1,2\r3,4\n")
    assert "1: is not a line of a CSV file" in matrix_refusal(tmp_path / "b.csv")


def test_missing_step_names_are_reported(tmp_path):
    """In any kind of file; near misses are named."""
    assert matrix_refusal(write(tmp_path / "a.csv", "times,x\n9:00,1\n"), "time") == (
        "has no 'time' to name its steps; did you mean times?"
    )
    assert matrix_refusal(write(tmp_path / "b.csv", "1,5\n"), "time") == "has no 'time' to name its steps"
    np.savez(tmp_path / "a.npz", features=np.ones((2, 3)), times=np.ones(2))
    assert "did you mean times?" in matrix_refusal(tmp_path / "a.npz", "time")


def test_a_bad_array_is_reported(tmp_path):
    arrays = {
        "holds float64 of shape (7,); expected numbers of shape (steps, features)": np.ones(7),
        "holds <U1 of shape (2, 1); expected numbers of shape (steps, features)": np.array([["a"], ["b"]]),
        "holds no numbers; expected a row for each step": np.ones((0, 3)),
        "row 1, counted from 0: nan in column 2 is not a finite 32-bit number; fill it in, or remove the row": np.array(
            [[1, 2, 3], [1, 2, np.nan]]
        ),
    }
    for wrong, array in arrays.items():
        np.save(tmp_path / "a.npy", array)
        assert matrix_refusal(tmp_path / "a.npy") == wrong


def test_a_bad_archive_is_reported(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, one=np.ones((2, 3)), two=np.ones((2, 3)))
    assert matrix_refusal(path) == "its arrays are one, two; name one of them 'features'"
    np.savez(path, features=np.ones((2, 3)), at=np.arange(3))
    assert matrix_refusal(path, "at") == "'at' of shape (3,) does not name 2 steps"
    with ZipFile(path, "w") as archive:
        archive.writestr("readme", "text")
    assert matrix_refusal(path) == "its arrays are none; name one of them 'features'"
    np.savez(path, at=np.arange(3))
    assert "name one of them 'features'" in matrix_refusal(path, "at")


def test_an_archive_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("attnx.files.bounded_files.MAX_UNPACKED_BYTES", 100_000)
    np.savez_compressed(tmp_path / "a.npz", features=np.zeros((10_007, 2)))
    assert "unpacks to 160,240 bytes" in matrix_refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_an_invalid_numpy_file_is_reported(tmp_path, name):
    """Text, nothing, one cut short, and one of Python objects, which are not loaded."""
    complete = tmp_path / "whole.npz"
    np.savez(complete, features=np.ones((101, 11)))
    for content in (b"1,2\n", b"", complete.read_bytes()[:200]):
        (tmp_path / name).write_bytes(content)
        assert matrix_refusal(tmp_path / name).startswith("is damaged")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': "
    for shape in (b"(3", b"(100000000000, 100), }"):
        text = (header + shape).ljust(118) + b"\n"
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        assert matrix_refusal(tmp_path / name).startswith("is damaged")
    with (tmp_path / name).open("wb") as stream:
        np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    assert matrix_refusal(tmp_path / name).startswith("is damaged")


def test_empty_files_are_reported(tmp_path):
    """An ending that is not known, no file, a folder."""
    assert matrix_refusal(write(tmp_path / "a.txt", "1")) == (
        "unknown ending; feature files are .csv, .npy, .npz files"
    )
    (tmp_path / "folder.npy").mkdir()
    for name in ("none.csv", "none.npz"):
        assert matrix_refusal(tmp_path / name).startswith("no such file")
    assert matrix_refusal(tmp_path / "folder.npy").startswith("is not a file; feature files are .csv")

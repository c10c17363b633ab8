"""Tables of time series: values, times, filled gaps, notes, and each mistake with its line."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from attnx.errors import UserError
from attnx.problems.forecasting.series import Series, fill_missing, irregular_steps_note, read_series
from attnx.problems.forecasting.times import parse_date, parse_times
from tests.refusal import refused

HEAD = "time,a,b"


def write(folder: Path, *lines: str, head: str = HEAD) -> Path:
    path = folder / "series.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def test_columns_times_and_missing_values_are_read(tmp_path):
    path = write(tmp_path, "2024-01-01 00:00,2,3", "2024-01-01T01:00,,5", "", "2024-01-01 02:00,NaN,7")
    (series,) = read_series(path, "time", ["b", "a"])
    assert series.columns == ("b", "a")
    np.testing.assert_array_equal(series.numbers, [[3, 2], [5, np.nan], [7, np.nan]])
    assert np.diff(series.times).tolist() == [3600, 3600]
    assert series.labels == ("2024-01-01 00:00", "2024-01-01T01:00", "2024-01-01 02:00")
    np.testing.assert_array_equal(series.values(["a"], 0, 2), [[2], [np.nan]])


def test_gaps_are_filled_with_the_last_known_value(tmp_path):
    """The last value before; at the start, where there is none, the first; the notes say so."""
    path = write(tmp_path, "1,,2,", "2,3,,", "3,,,3", "4,5,7,5", head="time,a,b,c")
    (series,) = read_series(path, "time", [])
    result, notes = fill_missing(series)
    assert result.numbers.tolist() == [[3, 2, 3], [3, 2, 3], [3, 2, 3], [5, 7, 5]]
    assert notes == [
        "2 missing values of a are replaced by the last ones before, the first 1 by the first one after",
        "2 missing values of b are replaced by the last ones before",
        "2 missing values of c are replaced by the last ones before, the first 2 by the first one after",
    ]


def test_a_blank_line_of_one_column_is_a_missing_value(tmp_path):
    """But not before the first cell, nor after the last."""
    (series,) = read_series(write(tmp_path, "2", "", "5", "", "", head="\na"), None, [])
    np.testing.assert_array_equal(series.numbers, [[2], [np.nan], [5]])


def test_a_note_describes_irregular_steps(tmp_path):
    (series,) = read_series(write(tmp_path, "1,2,3", "2,5,3", "7,7,3", "8,11,3"), "time", [])
    assert irregular_steps_note(series) == [
        "1 of 3 steps are not about 1 long as is usual, the first after 2; they are treated as equal"
    ]
    assert not irregular_steps_note(series._replace(times=np.arange(4.0)))
    assert len(irregular_steps_note(series._replace(times=np.arange(4.0)), usual_step=7.0)) == 1  # those of training


def test_each_group_is_a_series(tmp_path):
    """Each with its own times; rows may be mixed."""
    path = write(tmp_path, "1,x,2", "1,y,3", "2,x,5", "3,y,7", head="time,who,a")
    first, second = read_series(path, "time", [], group="who")
    assert (first.name, first.numbers.tolist(), first.times.tolist()) == ("x", [[2], [5]], [1, 2])
    assert (second.name, second.numbers.tolist(), second.times.tolist()) == ("y", [[3], [7]], [1, 3])


@pytest.mark.parametrize(
    "rows",
    [
        ["0.7855,1.611,0.861103", "0.7818,1.61,0.861104"],  # as a public table of exchange rates begins
        ["2016-07-01 00:00:00,5,2", "2016-07-01 01:00:00,5,3"],
        ["2016/7/1 0:00,5,2", "2016/7/1 1:00,5,3"],
        ["1,2,3", "2,3,5"],
        ["1e5,2,3", "2,3,5"],
        ["unit,2,3", "unit,3,5"],
        ["1,,3", "2,3,5"],
        ["nan,,3", "2,3,5"],
        ["NA,?,null", "2,3,5"],
    ],
)
def test_an_ambiguous_first_row_is_reported(tmp_path, rows):
    """As names it would be lost silently; with task.header the complete table is read, by name or by number."""
    path = tmp_path / "bare.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_series(path, None, [])
    assert str(error.value).startswith(f"{path}:1: the first row may be data or names of columns ({rows[0]!r}); set ")
    assert "task.header=false if it is data" in str(error.value)
    assert "task.header=true if it is names" in str(error.value)
    (series,) = read_series(path, None, ["3", "2"], has_header=False)
    assert len(series.numbers) == 2
    first = [float(cell) if cell not in ("", "NA", "?", "null") else np.nan for cell in rows[0].split(",")[:0:-1]]
    np.testing.assert_array_equal(series.numbers[0], first)
    if "" not in rows[0].split(","):
        (series,) = read_series(path, None, [rows[0].split(",")[2]], has_header=True)
        assert series.numbers.tolist() == [[float(rows[1].split(",")[2])]]


@pytest.mark.parametrize("head", ["date,0,1", "year,1990,1991", "a,b,c", "time,2,OT", "time,Na,K"])
def test_numeric_column_names_may_stand_among_words(tmp_path, head):
    (series,) = read_series(write(tmp_path, "1,2,3", "2,3,5", head=head), None, [])
    assert series.columns == tuple(head.split(","))
    assert len(series.numbers) == 2


@pytest.mark.needs_data("etth1/ETTh1.csv")
def test_a_real_table_is_read_with_and_without_header(tmp_path):
    path = Path(os.environ["ATTNX_DATA"], "etth1", "ETTh1.csv")
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(rows) + "\n", encoding="utf-8")
    (with_header,) = read_series(path, "date", [])
    (numbered,) = read_series(bare, "1", [], has_header=False)
    assert len(with_header.numbers) == len(rows) == 17420
    np.testing.assert_array_equal(with_header.numbers, numbered.numbers)
    assert (with_header.labels, with_header.columns) == (numbered.labels, tuple(header.split(",")[1:]))
    assert numbered.columns == ("2", "3", "4", "5", "6", "7", "8")
    with pytest.raises(UserError, match=r"bare\.csv:1: the first row may be data"):
        read_series(bare, None, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "series.csv: holds no header"),
        ("time,a,a\n1,2,3\n", "series.csv:1: two columns are called 'a'"),
        ("time,,a\n1,2,3\n", "series.csv:1: column 2 has no name"),
        ("\n\ntime,,a\n1,2,3\n", "series.csv:3: column 2 has no name"),
    ],
)
def test_a_header_with_empty_or_repeated_names_is_refused(tmp_path, text, message):
    (tmp_path / "series.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)):
        read_series(tmp_path / "series.csv", "time", [])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1,2,3", "2,warm,5"], ":3: 'warm' in column 'a' is not a number"),
        (["1,2,3", "2,inf,5"], ":3: inf in column 'a' is not a finite 32-bit number; leave it empty if it is missing"),
        (["1,2,3", "2,-1e39,5"], ":3: -1e+39 in column 'a' is not a finite 32-bit number"),
        (["1,2,3", "2,1_0,5"], ":3: '1_0' in column 'a' is not a number"),
        (["1,2,3", "2016_07_01,2,5"], ":3: '2016_07_01' is not a time"),
        (["2016-02-30,2,5"], ":2: '2016-02-30' is not a time; expected 2016-07-01 00:00:00 (ISO 8601), 20160701,"),
        (["2016-13,2,5"], ":2: '2016-13' is not a time"),
        (["2016Q5,2,5"], ":2: '2016Q5' is not a time"),
        (["20160229,2,5", "20160230,2,5"], ":3: 20160230 is not a date, but 20160229 before it is; correct it, or"),
        (["201612,2,5", "201613,2,5"], ":3: 201613 is not a date, but 201612 before it is"),
        (["2016,2,5", "2017-01-01,2,5"], ":3: 2017-01-01 is a date, but 2016 before it is a number"),
        (["1,2,3", "noon,5,7"], ":3: 'noon' is not a time"),
        (["1,2,3", "nan,5,7"], ":3: 'nan' is not a time"),
        (["1,2,3", "inf,5,7"], ":3: 'inf' is not a time"),
        (["1,2,3", "3,2,3", "", "2,5,7"], ":5: the time 2 comes after 3"),
        (["1,2,3", "2,2,3", "2,5,7"], ":4: the time 2 comes twice"),
        (["1,2,3", "2,2"], ":3: 2 columns, but line 1 has 3"),
        (["1,2,3", '2,"5,7', "3,5,7"], ":3: a quote is not closed in this line"),
        ([], ": holds no rows"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path, lines, message):
    path = write(tmp_path, *lines)
    with refused(f"{path}{message}..."):
        read_series(path, "time", [])


def test_a_missing_or_empty_column_is_reported(tmp_path):
    path = write(tmp_path, "1,2,", "2,3,")
    with pytest.raises(UserError, match="has no column 'tim'; did you mean time"):
        read_series(path, "tim", [])
    (series,) = read_series(path, "time", [])
    with pytest.raises(UserError, match=r"series\.csv: the column 'b' has no values"):
        fill_missing(series, "series.csv")


def series_at(*labels: str) -> Series:
    times = parse_times(labels, [f"line {row}" for row in range(len(labels))])
    return Series("", np.zeros((len(labels), 1)), ("a",), times, labels)


@pytest.mark.parametrize(
    ("label", "moment"),
    [
        ("2016-07-01", (2016, 7, 1)),
        ("20160701", (2016, 7, 1)),
        ("20160701.0", (2016, 7, 1)),
        ("20160701T0600", (2016, 7, 1, 6)),
        ("2016-07-01 06:00:00 UTC", (2016, 7, 1, 6)),
        ("2016-07-01T06:00:00Z", (2016, 7, 1, 6)),
        ("2016-07-01 08:00:00 +0200", (2016, 7, 1, 6)),
        ("2016-07-01 08:00:00+02:00", (2016, 7, 1, 6)),
        ("2016070106", (2016, 7, 1, 6)),
        ("201607010630", (2016, 7, 1, 6, 30)),
        ("20160701063059", (2016, 7, 1, 6, 30, 59)),
        ("201607", (2016, 7, 1)),
        ("2016-07", (2016, 7, 1)),
        ("2016/7", (2016, 7, 1)),
        ("2016M07", (2016, 7, 1)),
        ("2016Q3", (2016, 7, 1)),
        ("2016-q3", (2016, 7, 1)),
        ("2016-W01", (2016, 1, 4)),
    ],
)
def test_dates_of_every_form_are_seconds(label, moment):
    assert parse_date(label) == datetime(*moment, tzinfo=UTC)
    assert parse_times([label], ["line 1"]).tolist() == [datetime(*moment, tzinfo=UTC).timestamp()]


@pytest.mark.parametrize(
    "labels", [("0", "150001", "20160131"), ("1990", "1991", "1992"), ("1467331200", "1467334800")]
)
def test_numbers_are_numbers(labels):
    """Counters that pass by digits of a date, years, and seconds since 1970."""
    assert parse_times(labels, ["line"] * len(labels)).tolist() == [float(label) for label in labels]
    assert parse_date(labels[0]) is None


@pytest.mark.parametrize(
    "labels",
    [
        ("2016-01-01", "2016-02-01", "2016-03-01", "2016-04-01"),
        ("20160131", "20160229", "20160331", "20160430"),
        ("2015-11", "2015-12", "2016-01", "2016-02"),
        ("2016Q1", "2016Q2", "2016Q3", "2016Q4", "2017Q1"),
        ("2014-12-31", "2015-12-31", "2016-12-31", "2017-12-31"),
        ("201511", "201512", "201601"),
        ("2016-02-01T00:00+01:00", "2016-03-01T00:00+01:00", "2016-04-01T00:00+02:00", "2016-05-01T00:00+02:00"),
    ],
)
def test_steps_of_the_calendar_are_equal(labels):
    """Starts and ends of months, quarters and years, which are 28 to 366 days apart."""
    assert not irregular_steps_note(series_at(*labels))


def test_a_missing_step_of_the_calendar_is_noted():
    (note,) = irregular_steps_note(series_at("2016-01", "2016-02", "2016-04", "2016-05", "2016-06"))
    assert note.startswith("1 of 4 steps are not about 2.6784e+06 s long as is usual, the first after 2016-02;")
    (note,) = irregular_steps_note(series_at("2016Q1", "2016Q2", "2016Q3", "2017Q1"))
    assert "the first after 2016Q3" in note
    (note,) = irregular_steps_note(series_at("20160130", "20160131", "20160201", "20160203"))
    assert "1 of 3 steps are not about 86400 s long" in note

"""Splits of a series in time: protocols of papers, ratios, rows, and mistakes."""

import os
from pathlib import Path

import numpy as np
import pytest

from attnx.errors import UserError
from attnx.problems.forecasting.forecasting import Forecasting
from attnx.problems.forecasting.series import Series, read_series
from attnx.problems.forecasting.series_split import (
    SeriesSplit,
    constant_column_notes,
    overlap_note,
    split_note,
    split_series,
)
from attnx.problems.forecasting.windows import Span, WindowSpec
from tests.refusal import refused

HOUR = 3600.0


def series_with_times(rows: int, step: float = HOUR, name: str = "") -> Series:
    """A series with the time at each row, so many seconds apart."""
    times = 1_467_331_200 + step * np.arange(rows)
    labels = tuple(str(np.datetime64(int(time), "s")) for time in times)
    return Series(name, np.arange(rows, dtype=np.float64)[:, None], ("a",), times, labels)


def daily(name: str, first: str, rows: int) -> Series:
    """A series with so many days from the first on."""
    days = np.datetime64(first) + np.arange(rows)
    times = days.astype("datetime64[s]").astype(np.float64)
    return Series(name, np.arange(rows, dtype=np.float64)[:, None], ("a",), times, tuple(map(str, days)))


def series_without_times(rows: int) -> Series:
    """A series without times."""
    return series_with_times(rows)._replace(labels=tuple(map(str, range(rows))))


@pytest.mark.parametrize(("lookback", "horizon"), [(48, 24), (336, 96), (96, 720)])
@pytest.mark.parametrize(("step", "a_day"), [(HOUR, 24), (HOUR / 4, 96)])
def test_the_borders_of_the_ett_papers(lookback, horizon, step, a_day):
    """As the Time-Series-Library cuts arrays: validation and test begin ``lookback`` rows before their own border."""
    month, rows = 30 * a_day, np.arange(20 * 30 * a_day + 3020)
    begin = [0, 12 * month - lookback, 16 * month - lookback]
    end = [12 * month, 16 * month, 20 * month]
    series, windows = series_with_times(len(rows), step), WindowSpec(lookback, horizon, ("a",))
    result = split_series(series, windows, SeriesSplit.parse("ett"))
    assert list(result) == ["train", "valid", "test"]
    for span, first, last in zip(result.values(), begin, end, strict=True):
        part = rows[first:last]
        starts = windows.starts(span)
        assert len(starts) == len(part) - lookback - horizon + 1
        assert starts[0] - lookback == part[0]
        assert starts[-1] + horizon == part[-1] + 1


# Rows of the public tables of electricity, traffic, weather and illness, as papers that use 7:1:2 list their parts; and
# 90, of which 0.7 is a little less than 63 in floating point.
PUBLISHED = [(26304, 18412, 2632, 5260), (17544, 12280, 1756, 3508), (52696, 36887, 5270, 10539), (966, 676, 97, 193)]


@pytest.mark.parametrize(("rows", "train", "valid", "test"), [*PUBLISHED, (90, 62, 10, 18)])
def test_a_ratio_is_rounded_as_in_the_papers(rows, train, valid, test):
    result = SeriesSplit.parse("7:1:2").spans(series_without_times(rows))
    assert result == {"train": Span(0, train), "valid": Span(train, train + valid), "test": Span(train + valid, rows)}
    assert result["test"].end - result["test"].start == test


def test_row_counts_are_used_exactly():
    result = SeriesSplit.parse([11, 5, 3]).spans(series_without_times(23))
    assert result == {"train": Span(0, 11), "valid": Span(11, 16), "test": Span(16, 19)}


UNKNOWN = "7:1 7:1:2:3 7:1:0 -7:1:2 ETT etth 7/1/2 : 1.2.3:4:5 inf:1:2"


@pytest.mark.parametrize("overrides", [*UNKNOWN.split(), "", [5], [0.7, 0.1, 0.2]], ids=str)
def test_an_unknown_split_is_refused(overrides):
    with refused(f"task.split={str(overrides).replace(' ', '')}: expected ...[8640,2880,2880]..."):
        SeriesSplit.parse(overrides)


ETT, DAYS = "task.split=ett", "s do not fill a day evenly"
TAKEN = f"{ETT} takes 14,400 rows, but the series"


@pytest.mark.parametrize(
    ("series", "split", "message"),
    [
        (series_without_times(23), [20, 5, 5], "task.split=[20,5,5] takes 30 rows, but the series has 23"),
        (
            series_without_times(23),
            [4, 5, 5],
            "the train split has room for 1 steps to forecast, fewer than task.horizon=2",
        ),
        (series_without_times(23), "16:1:6", "the valid split has room for 1 steps"),
        (series_with_times(14399), "ett", f"{TAKEN} has 14,399"),
        (series_with_times(100, name="b"), "ett", f"{TAKEN} of b has 100"),
        (series_without_times(15000), "ett", f"{ETT} needs dates: set task.time_column to a column of dates, or"),
        (series_with_times(999, 7 * HOUR), "ett", f"{ETT}: steps of 25200 {DAYS}; or name rows:"),
        (series_with_times(999, 24 * HOUR * 7), "ett", f"{ETT}: steps of 604800 {DAYS}"),
    ],
)
def test_a_series_too_short_for_its_split_is_refused(series, split, message):
    with refused(f"{message}..."):
        split_series(series, WindowSpec(3, 2, ("a",)), SeriesSplit.parse(split))


def test_a_known_column_needs_a_value_to_train_on():
    """It would be filled from later rows."""
    series = series_without_times(23)
    late = np.where(np.arange(23) < 16, np.nan, series.numbers[:, 0])
    numbers = np.column_stack([series.numbers[:, 0], late])
    series = series._replace(numbers=numbers, columns=("a", "late"), missing_mask=np.isnan(numbers))
    windows = WindowSpec(3, 2, ("a",), ("late",))
    with pytest.raises(UserError, match=r"train split has no value of late; leave it out of task\.known_columns"):
        split_series(series, windows, SeriesSplit.parse("16:3:4"))
    assert split_series(series, windows, SeriesSplit.parse("17:2:4"))["train"].end == 17


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["3"] * 9, "is shorter than a window of 8 \\+ 2 steps"),
        ([""] * 20 + ["3"], "no window has measured values of a"),
    ],
)
def test_a_test_file_without_a_window_is_refused(values, message, tmp_path):
    for name, column in (("train", ["3", "5"] * 100), ("test", values)):
        rows = [f"{row},{value}" for row, value in enumerate(column)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["t,a", *rows]), encoding="utf-8")
    task = Forecasting(
        str(tmp_path / "train.csv"), time_column="t", test=str(tmp_path / "test.csv"), lookback=8, horizon=2
    )
    with pytest.raises(UserError, match=rf"task\.test=.*test\.csv: {message}"):
        task.load()


def test_the_rows_of_each_part_are_reported():
    """Counted from 1, as people count the rows below a header."""
    split, series = SeriesSplit.parse([11, 5, 3]), series_without_times(2023)
    cuts = [(series, split.spans(series))]
    assert split_note(split, cuts, True) == (
        "task.split=[11,5,3]: rows 1 to 11 train, 12 to 16 valid, 17 to 19 test; 20 to 2,023 unused"
    )
    assert split_note(split, cuts, False) == (
        "task.split=[11,5,3]: rows 1 to 11 train, 12 to 16 valid; 17 to 2,023 unused"
    )
    complete = SeriesSplit.parse("7:1:2")
    several = [(item, complete.spans(item)) for item in (series_without_times(10), series_without_times(20))]
    assert split_note(complete, several[:1], True) == "task.split=7:1:2: rows 1 to 7 train, 8 to 8 valid, 9 to 10 test"
    assert split_note(complete, several, True) == "task.split=7:1:2: 21 train, 3 valid, 6 test rows of 2 series"


def test_dates_cut_all_series_at_once():
    """A date in no row is before the next one; digits and months are dates; of numbers the option has numbers."""
    long, short = daily("x", "2016-01-01", 200), daily("y", "2016-03-01", 100)
    for starts in (["2016-04-01", "2016-05-01"], ["20160401", "201605"], [20160401, 20160501], ["2016Q2", "2016-05"]):
        split = SeriesSplit.parse(starts)
        assert split.spans(long) == {"train": Span(0, 91), "valid": Span(91, 121), "test": Span(121, 200)}
        assert split.spans(short) == {"train": Span(0, 31), "valid": Span(31, 61), "test": Span(61, 100)}
        assert not overlap_note(split, [(item, split.spans(item)) for item in (long, short)])
    gap = long._replace(
        times=np.delete(long.times, range(85, 95)), labels=long.labels[:190], numbers=long.numbers[:190]
    )
    assert SeriesSplit.parse(["2016-04-01", "2016-05-01"]).spans(gap)["valid"] == Span(85, 111)
    years = series_without_times(30)._replace(labels=tuple(map(str, range(1990, 2020))), times=np.arange(1990.0, 2020))
    assert SeriesSplit.parse([2010, 2015]).spans(years)["test"] == Span(25, 30)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (["2016-05-01", "2016-04-01"], "test begins at 2016-04-01, which is not after 2016-05-01"),
        (["2016-05-01", "2016-05-01"], "test begins at 2016-05-01, which is not after 2016-05-01"),
        (["2015-05-01", "2016-05-01"], "the train split of x is empty; the rows are from 2016-01-01 to 2016-07-18"),
        (["2016-05-01", "2017-05-01"], "the test split of x is empty; the rows are from 2016-01-01 to 2016-07-18"),
        (["2016-05-01T01:00", "2016-05-01T02:00"], "the valid split of x is empty"),
        (["May", "2016-05-01"], "May is not a date, as the times of x are, such as 2016-01-01"),
        ([70, 10], "70 is not a date"),
    ],
)
def test_dates_that_cut_nothing_are_refused(starts, message):
    with refused(f"task.split=[{','.join(map(str, starts))}]: {message}..."):
        SeriesSplit.parse(starts).spans(daily("x", "2016-01-01", 200))


def test_dates_need_times():
    with pytest.raises(UserError, match=r"task\.split=\[2016,2017\] names times: set task\.time_column"):
        Forecasting("series.csv", split=["2016", "2017"])
    with pytest.raises(UserError, match="2016-05-01 is not a number, as the times are, such as 0"):
        SeriesSplit.parse(["2016-05-01", "2016-06-01"]).spans(series_without_times(23))


def test_test_rows_before_training_rows_are_noted():
    """Of y, whose rows 81 to 100 are in May and June 2015, before the training rows of x."""
    split = SeriesSplit.parse("7:1:2")
    parts = [(item, split.spans(item)) for item in (daily("x", "2016-01-01", 200), daily("y", "2015-03-01", 100))]
    assert overlap_note(split, parts) == [
        "task.split=7:1:2 cuts each series by itself: test rows of y begin at 2015-05-20, while training rows of x go "
        "on to 2016-05-19; 'task.split=[2016-05-20,2016-06-09]' cuts all at the same times"
    ]
    (note,) = overlap_note(split, parts, has_test=False)
    assert "valid rows of y begin at 2015-05-10" in note
    assert not overlap_note(split, parts[:1])
    same = [(item, split.spans(item)) for item in (daily("x", "2016-01-01", 200), daily("y", "2016-01-01", 200))]
    assert not overlap_note(split, same)
    for first, notes in (("2016-05-11", 1), ("2016-05-12", 0)):  # of ten rows the ninth is the first of the test
        short = daily("y", first, 10)
        assert len(overlap_note(split, [parts[0], (short, split.spans(short))])) == notes


def test_constant_columns_are_judged_by_the_training_rows():
    """b changes later, and so does d, which is known; e changes before alone."""
    rows, train = np.arange(23.0), Span(0, 11)
    later = np.where(rows < 11, 7, rows)
    numbers = np.stack([rows, later, np.full(23, 5.0), later, np.minimum(rows, 10)], 1)
    series = series_without_times(23)._replace(numbers=numbers, columns=tuple("abcde"))
    assert constant_column_notes(WindowSpec(3, 2, ("a", "b", "e"), ("d",)), [(series, train)]) == [
        "the column b never changes in the training rows: its errors are not scaled; leave it out, or set another "
        "task.split",
        "the column d never changes in the training rows: it says nothing; leave it out, or set another task.split",
    ]
    with pytest.raises(UserError, match="the training rows of b, c never change: there is nothing to learn"):
        constant_column_notes(WindowSpec(3, 2, ("b", "c"), ("a",)), [(series, train)])
    shifted = series._replace(numbers=series.numbers + 3)
    assert not constant_column_notes(WindowSpec(3, 2, ("b", "c")), [(series, train), (shifted, train)])


@pytest.mark.needs_data("etth1/ETTh1.csv")
def test_the_real_series_is_cut_into_the_hours_of_the_papers():
    (series,) = read_series(Path(os.environ["ATTNX_DATA"], "etth1", "ETTh1.csv"), "date", [])
    assert SeriesSplit.parse("ett").spans(series) == SeriesSplit.parse([8640, 2880, 2880]).spans(series)

"""Times of rows: dates of every form, numbers, and steps of the calendar."""

from datetime import UTC, datetime

import numpy as np
import pytest

from attnx.problems.forecasting.series import Series, irregular_steps_note
from attnx.problems.forecasting.times import parse_date, parse_times


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
    assert note.startswith("1 of 4 steps are not about 2.6784e+06 s long like the others, the first after 2016-02;")
    (note,) = irregular_steps_note(series_at("2016Q1", "2016Q2", "2016Q3", "2017Q1"))
    assert "the first after 2016Q3" in note
    (note,) = irregular_steps_note(series_at("20160130", "20160131", "20160201", "20160203"))
    assert "1 of 3 steps are not about 86400 s long" in note

"""Times in a table: dates, months, quarters and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted

# A month, a day, and maybe hours, minutes and seconds. Seconds since 1970 have ten digits too, of no such year yet.
DIGITS_OF_DATE: Final = re.compile(r"((?:1[5-9]|2[01])\d{4}(?:\d\d)?|(?:19|20)\d{8}(?:\d\d){0,2})(?:\.0)?", re.ASCII)
MONTH_OR_QUARTER: Final = re.compile(r"(\d{4})(?:(?:[-/]|[- ]?M)(\d\d?)|[- ]?Q([1-4]))", re.ASCII | re.IGNORECASE)
ZONE: Final = re.compile(r" (?=[+-]\d\d:?\d\d$)| ?(?:UTC|GMT)$", re.ASCII)
EXPECTED: Final = "2016-07-01 00:00:00 (ISO 8601), 20160701, 2016-07, 2016Q3 or a number"


def parse_date(label: str) -> datetime | None:
    """The first moment of a date, a month or a quarter, in UTC if it names no other zone; None if it is none of them.

    >>> [str(parse_date(label)) for label in ("20160701", "2016-07", "2016Q3", "2016-07-01 00:00")]
    ['2016-07-01 00:00:00+00:00', '2016-07-01 00:00:00+00:00', '2016-07-01 00:00:00+00:00', '2016-07-01 00:00:00+00:00']
    >>> parse_date("2016"), parse_date("20161301")
    (None, None)
    """
    try:
        if match := DIGITS_OF_DATE.fullmatch(label):
            moment = datetime.strptime(match[1], "%Y%m%d%H%M%S"[: len(match[1]) - 2])
        elif match := MONTH_OR_QUARTER.fullmatch(label):
            year, month, quarter = match.groups()
            moment = datetime(int(year), int(month) if month else 3 * int(quarter) - 2, 1)
        elif is_number(label):
            return None
        else:
            moment = datetime.fromisoformat(ZONE.sub("", label))  # UTC without a zone
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_time(label: str, location: str) -> float:
    """Return a date as seconds, and a finite number, of digits alone too, as it is; any other is a UserError."""
    if is_number(label) and np.isfinite(number := float(label)):
        return number
    if (date := parse_date(label)) is None:
        raise UserError(f"{location}: {quoted(label)} is not a time; expected {EXPECTED}")
    return date.timestamp()


def parse_times(labels: Sequence[str], locations: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the times of a column, all of them as seconds, or all as numbers, as the first one says.

    Raises:
        UserError: ``file:line``: no time, a number in a column of dates, or a date in one of numbers.
    """
    has_dates = parse_date(labels[0]) is not None
    times = np.empty(len(labels))
    for row, (label, location) in enumerate(zip(labels, locations, strict=True)):
        date = parse_date(label) if has_dates else None
        times[row] = date.timestamp() if date is not None else parse_time(label, location)
        if date is None and (has_dates or not is_number(label)):
            problem = f"{label} is {'not a date' if has_dates else 'a date'}, but {labels[0]} before it is"
            remedy = "correct it, or leave task.time_column out where rows are in order and times are no dates"
            raise UserError(f"{location}: {problem}{'' if has_dates else ' a number'}; {remedy}")
    return times

"""Which rows of a series are trained, validated and tested on: ratios, numbers of rows, and protocols of papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from attnx.data.readers.series import Series
from attnx.data.windows import Span, WindowSpec
from attnx.errors import UserError
from attnx.files.parse_number import is_number

PARTS: Final = ("train", "valid", "test")
ETT: Final = "ett"
# Of Informer's protocol: the months of each part, and what a month is.
ETT_MONTHS: Final = (12, 4, 4)
DAYS_OF_A_MONTH: Final = 30
SECONDS_OF_A_DAY: Final = 24 * 60 * 60


class SeriesSplit(NamedTuple):
    """How a series is cut in time: by ``shares``, by numbers of ``rows``, or if both are None by the months of ETT.

    Attributes:
        text: what was asked for, for messages.
        shares: of train, valid and test; they sum to 1.
        rows: of train, valid and test.
    """

    text: str
    shares: tuple[float, ...] | None = None
    rows: tuple[int, ...] | None = None

    @classmethod
    def read(cls, asked: str | Sequence[int]) -> SeriesSplit:
        """Read ``ett``, a ratio such as ``7:1:2``, or three numbers of rows.

        Raises:
            UserError: it is none of these.
        """
        if not isinstance(asked, str):
            if len(asked) != len(PARTS):
                raise UserError(
                    f"task.split={list(asked)}: expected rows of train, valid and test, such as [8640,2880,2880]"
                )
            return cls(str(list(asked)).replace(" ", ""), rows=tuple(asked))
        if asked == ETT:
            return cls(asked)
        parts = [float(part) for part in asked.split(":")] if all(map(is_number, asked.split(":"))) else []
        if len(parts) != len(PARTS) or not all(0 < part < float("inf") for part in parts):
            raise UserError(
                f"task.split={asked}: expected {ETT}, a ratio of train, valid and test such as 7:1:2, or their rows, "
                "such as [8640,2880,2880]"
            )
        return cls(asked, shares=tuple(part / sum(parts) for part in parts))

    def spans(self, series: Series) -> dict[str, Span]:
        """The rows of train, valid and test, one behind the other from the first row on.

        Of shares train and test are rounded down, and valid is what is left between them, as in the Dataset_Custom of
        https://github.com/thuml/Time-Series-Library (data_provider/data_loader.py). ``ett`` is 12, 4 and 4 months of 30
        days from the first row on, whatever is behind them, as in its Dataset_ETT_hour and Dataset_ETT_minute (Zhou et
        al. 2021, https://arxiv.org/abs/2012.07436).

        Raises:
            UserError: the series is shorter, or its steps do not say how many make a month.
        """
        count = len(series.numbers)
        if self.shares is not None:
            train, test = int(count * self.shares[0]), int(count * self.shares[2])
            sizes = [train, count - train - test, test]
        elif self.rows is not None:
            sizes = list(self.rows)
        else:
            month = DAYS_OF_A_MONTH * self._steps_of_a_day(series)
            sizes = [months * month for months in ETT_MONTHS]
        if sum(sizes) > count:
            raise UserError(
                f"task.split={self.text} takes {sum(sizes):,} rows, but the series{_whose(series)} has {count:,}"
            )
        ends = np.cumsum(sizes).tolist()
        return {part: Span(start, end) for part, start, end in zip(PARTS, [0, *ends], ends, strict=False)}

    def _steps_of_a_day(self, series: Series) -> int:
        instead = "or name rows: task.split=[8640,2880,2880]"
        if any(map(is_number, series.labels[:1])):
            raise UserError(
                f"task.split={self.text} counts months by the clock: let task.time name a column of dates, {instead}"
            )
        step = float(np.median(np.diff(series.times))) if len(series.times) > 1 else 0.0
        a_day = SECONDS_OF_A_DAY / step if step else 0.0
        if a_day < 1 or not a_day.is_integer():
            raise UserError(f"task.split={self.text}: steps of {step:g} s do not fill a day evenly; {instead}")
        return int(a_day)


def cut_series(series: Series, windows: WindowSpec, split: SeriesSplit) -> dict[str, Span]:
    """Cut a series into train, valid and test, in this order of time.

    Raises:
        UserError: the series is too short for a window in each part, or nobody measured what a part is to forecast.
    """
    found = split.spans(series)
    for name, span in found.items():
        if not windows.starts(span):
            room = span.end - max(span.start, windows.lookback)
            raise UserError(
                f"the {name} part{_whose(series)} has room for {max(room, 0):,} steps to forecast, fewer than "
                f"task.horizon={windows.horizon}; shorten it or task.lookback={windows.lookback}, or give more data"
            )
        if not len(windows.worth(series, span)):
            raise UserError(
                f"the {name} part{_whose(series)} holds no value of {', '.join(windows.targets)}; give another "
                "task.split"
            )
    return found


def describe_rows(split: SeriesSplit, cuts: Sequence[tuple[Series, dict[str, Span]]], tests_here: bool) -> str:
    """A line for people on which rows each part has, counted from 1 without the header; of many series how many.

    Args:
        split: how they were cut.
        cuts: the series and their parts.
        tests_here: whether the test part is tested on, and not another file.
    """
    parts = PARTS if tests_here else PARTS[:2]
    if len(cuts) > 1:
        sizes = {part: sum(spans[part].end - spans[part].start for _, spans in cuts) for part in parts}
        said = ", ".join(f"{size:,} {part}" for part, size in sizes.items())
        return f"task.split={split.text}: {said} rows of {len(cuts):,} series"
    series, spans = cuts[0]
    said = ", ".join(f"{_rows(spans[part])} {part}" for part in parts)
    rest = Span(spans[parts[-1]].end, len(series.numbers))
    return f"task.split={split.text}: rows {said}" + (f"; {_rows(rest)} unused" if rest.start < rest.end else "")


def _rows(span: Span) -> str:
    return f"{span.start + 1:,} to {span.end:,}"


def _whose(series: Series) -> str:
    return f" of {series.name}" if series.name else ""

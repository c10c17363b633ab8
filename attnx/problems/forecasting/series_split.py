"""Splitting a series in time: by a ratio, numbers of rows, dates, or the protocol of the ETT papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from attnx.data.splits import Splits
from attnx.errors import UserError
from attnx.files.parse_number import is_count, is_number

from .series import Series, name_suffix
from .times import parse_date
from .windows import Span, WindowSpec

ETT: Final = "ett"
# Informer's protocol.
ETT_MONTHS: Final = (12, 4, 4)
DAYS_PER_MONTH: Final = 30
SECONDS_PER_DAY: Final = 24 * 60 * 60


class SeriesSplit(NamedTuple):
    """Shares (with sum 1) or numbers of rows of train, valid and test, or the times at which valid and test begin.

    If all are None, the months of ETT; ``text`` is the option's value, for messages.
    """

    text: str
    shares: tuple[float, ...] | None = None
    rows: tuple[int, ...] | None = None
    starts: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, split: str | Sequence[int | str]) -> SeriesSplit:
        """Parse ``ett``, a ratio such as ``7:1:2``, three numbers of rows, or two times; all else is a UserError."""
        if split == ETT:
            return cls(split)
        if isinstance(split, str):
            texts, text = split.split(":"), split
            parts = [float(text) for text in texts] if all(map(is_number, texts)) else []
            if len(parts) == len(Splits._fields) and all(0 < part < float("inf") for part in parts):
                return cls(text, shares=tuple(part / sum(parts) for part in parts))
        else:
            texts = list(map(str, split))
            text = f"[{','.join(texts)}]"
            if len(texts) == len(Splits._fields) and all(map(is_count, texts)):
                return cls(text, rows=tuple(map(int, texts)))
            if len(texts) == len(Splits._fields) - 1:
                return cls(text, starts=tuple(texts))
        raise UserError(
            f"task.split={text}: expected {ETT}, a ratio of train, valid and test such as 7:1:2, their rows, such as "
            "[8640,2880,2880], or the times at which valid and test begin, such as [2016-01-01,2016-06-01]"
        )

    def spans(self, series: Series) -> dict[str, Span]:
        """Return the rows of train, valid and test, which follow each other from the first row on.

        With shares the sizes of train and test are rounded down and valid has the remaining rows, as in Dataset_Custom
        of https://github.com/thuml/Time-Series-Library (data_provider/data_loader.py). ``ett`` is 12, 4 and 4 months of
        30 days; later rows are unused, as in its Dataset_ETT_hour and Dataset_ETT_minute (Zhou et al. 2021,
        https://arxiv.org/abs/2012.07436).

        Raises:
            UserError: the series is too short, its steps do not fill a day evenly, or times leave a part empty.
        """
        count = len(series.numbers)
        if self.starts is not None:
            sizes = np.diff([0, *np.searchsorted(series.times, self._start_times(series, self.starts)), count]).tolist()
            if 0 in sizes:
                part = f"the {Splits._fields[sizes.index(0)]} split{name_suffix(series)}"
                extent = f"the rows are from {series.labels[0]} to {series.labels[-1]}"
                raise UserError(f"task.split={self.text}: {part} is empty; {extent}")
        elif self.shares is not None:
            train, test = int(count * self.shares[0]), int(count * self.shares[2])
            sizes = [train, count - train - test, test]
        elif self.rows is not None:
            sizes = list(self.rows)
        else:
            month = DAYS_PER_MONTH * self._steps_per_day(series)
            sizes = [months * month for months in ETT_MONTHS]
        if sum(sizes) > count:
            series_name = f"the series{name_suffix(series)}"
            raise UserError(f"task.split={self.text} takes {sum(sizes):,} rows, but {series_name} has {count:,}")
        ends = np.cumsum(sizes).tolist()
        return {part: Span(start, end) for part, start, end in zip(Splits._fields, [0, *ends], ends, strict=False)}

    def _start_times(self, series: Series, starts: Sequence[str]) -> list[float]:
        """The times at which valid and test begin, in the units of the series."""
        times = []
        kind = "a date" if series.has_dates else "a number"
        for start in starts:
            date = parse_date(start) if series.has_dates else None
            if date is None and (series.has_dates or not is_number(start)):
                example = f"as the times{name_suffix(series)} are, such as {series.labels[0]}"
                raise UserError(f"task.split={self.text}: {start} is not {kind}, {example}")
            times.append(float(start) if date is None else date.timestamp())
        if times[0] >= times[1]:
            raise UserError(f"task.split={self.text}: test begins at {starts[1]}, which is not after {starts[0]}")
        return times

    def _steps_per_day(self, series: Series) -> int:
        alternative = "or name rows: task.split=[8640,2880,2880]"
        if not series.has_dates:
            raise UserError(
                f"task.split={self.text} needs dates: set task.time_column to a column of dates, {alternative}"
            )
        step = series.usual_step or 0.0
        steps_per_day = SECONDS_PER_DAY / step if step else 0.0
        if steps_per_day < 1 or not steps_per_day.is_integer():
            raise UserError(f"task.split={self.text}: steps of {step:g} s do not fill a day evenly; {alternative}")
        return int(steps_per_day)


def split_series(series: Series, windows: WindowSpec, split: SeriesSplit) -> dict[str, Span]:
    """Split a series in time; a UserError if a split has no room for a window, or no value of the targets.

    So is a known column without a value in the training split, which would be filled from later ones.
    """
    spans = split.spans(series)
    for name, span in spans.items():
        if not windows.starts(span):
            room = span.end - max(span.start, windows.lookback)
            raise UserError(
                f"the {name} split{name_suffix(series)} has room for {max(room, 0):,} steps to forecast, fewer than "
                f"task.horizon={windows.horizon}; shorten it or task.lookback={windows.lookback}, or give more data"
            )
        if not len(windows.valid_starts(series, span)):
            targets = ", ".join(windows.targets)
            raise UserError(f"the {name} split{name_suffix(series)} has no value of {targets}; set another task.split")
    for name in windows.known_columns:
        if np.isnan(series.measured_values([name], *spans["train"])).all():
            where = f"the train split{name_suffix(series)}"
            raise UserError(f"{where} has no value of {name}; leave it out of task.known_columns, or move task.split")
    return spans


def split_note(split: SeriesSplit, parts: Sequence[tuple[Series, dict[str, Span]]], has_test: bool) -> str:
    """Return a note on the rows of each split, counted from 1 without the header; for several series, on their number.

    Without ``has_test`` another file replaces the test split.
    """
    names = Splits._fields if has_test else Splits._fields[:2]
    if len(parts) > 1:
        sizes = {name: sum(spans[name].end - spans[name].start for _, spans in parts) for name in names}
        rows = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
        return f"task.split={split.text}: {rows} rows of {len(parts):,} series"
    series, spans = parts[0]
    rows = ", ".join(f"{_format_rows(spans[name])} {name}" for name in names)
    unused = Span(spans[names[-1]].end, len(series.numbers))
    note = f"task.split={split.text}: rows {rows}"
    return note + (f"; {_format_rows(unused)} unused" if unused.start < unused.end else "")


def overlap_note(
    split: SeriesSplit, parts: Sequence[tuple[Series, dict[str, Span]]], has_test: bool = True
) -> list[str]:
    """Return a note if the test rows of one series begin before the training rows of another end.

    Without ``has_test`` validation rows take the place of test rows.
    """
    held_out = "test" if has_test else "valid"
    earliest, its_spans = min(parts, key=lambda part: part[0].times[part[1][held_out].start])
    latest, latest_spans = max(parts, key=lambda part: part[0].times[part[1]["train"].end - 1])
    start, end = its_spans[held_out].start, latest_spans["train"].end - 1
    if earliest.times[start] > latest.times[end]:
        return []
    longest, spans = max(parts, key=lambda part: len(part[0].times))
    dates = ",".join(longest.labels[spans[name].start] for name in ("valid", "test"))
    return [
        f"task.split={split.text} cuts each series by itself: {held_out} rows{name_suffix(earliest)} begin at "
        f"{earliest.labels[start]}, while training rows{name_suffix(latest)} go on to {latest.labels[end]}; "
        f"'task.split=[{dates}]' cuts all at the same times"
    ]


def constant_column_notes(windows: WindowSpec, train: Sequence[tuple[Series, Span]]) -> list[str]:
    """Return a note on each column that never changes in the training rows; a UserError if no target does."""
    values = [series.values(windows.columns, *span) for series, span in train]
    is_constant = np.min([part.min(0) for part in values], 0) == np.max([part.max(0) for part in values], 0)
    if is_constant[: len(windows.targets)].all():
        targets = ", ".join(windows.targets)
        raise UserError(
            f"the training rows of {targets} never change: there is nothing to learn; set another task.split"
        )
    return [
        f"the column {windows.columns[index]} never changes in the training rows: "
        f"{'its errors are not scaled' if index < len(windows.targets) else 'it says nothing'}; leave it out, or set "
        "another task.split"
        for index in np.flatnonzero(is_constant)
    ]


def _format_rows(span: Span) -> str:
    return f"{span.start + 1:,} to {span.end:,}"

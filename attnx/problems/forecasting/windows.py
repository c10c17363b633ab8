"""Windows over time series: the steps to read and the steps to forecast."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnx.data.dataset import PairDataset
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler, Matrix

from .series import Series, filled_notes, irregular_steps_note
from .times import parse_time


class Span(NamedTuple):
    """The forecast steps of a split: from ``start`` up to ``end``; the lookback may start earlier."""

    start: int
    end: int


class WindowSpec(NamedTuple):
    """Sizes and columns of windows: ``lookback`` steps to read, then ``horizon`` steps to forecast.

    ``targets`` are forecast and read first; ``known_columns`` (calendar or static) are read for the forecast steps too.
    """

    lookback: int
    horizon: int
    targets: tuple[str, ...]
    known_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a source step."""
        return self.targets + self.known_columns

    def starts(self, span: Span) -> range:
        """First forecast step of each window; all its forecast steps are in the span."""
        return range(max(span.start, self.lookback), span.end - self.horizon + 1)

    def valid_starts(self, series: Series, span: Span) -> npt.NDArray[np.int64]:
        """Return the :meth:`starts` with a measured target in the horizon, and all targets measured once before.

        Values missing at the beginning of a series are filled from later ones, so no window may start there.
        """
        starts = np.array(self.starts(span), dtype=np.int64)
        is_measured = ~np.isnan(series.measured_values(self.targets, 0, len(series.numbers)))
        first = int(is_measured.argmax(0).max()) if is_measured.any(0).all() else len(is_measured)
        counts = np.append(0, np.cumsum(is_measured.any(1)))
        return starts[(counts[starts + self.horizon] > counts[starts]) & (starts > first)]

    def source(self, numbers: Matrix, start: int) -> Matrix:
        """(lookback, f) source, a part of ``numbers``; with known columns (lookback + horizon, f), future targets NaN.

        ``numbers`` (s, f) are the values of :attr:`columns` at all steps of a series, in the data's units.
        """
        if not self.known_columns:
            return numbers[start - self.lookback : start]
        source = numbers[start - self.lookback : start + self.horizon].copy()
        source[self.lookback :, : len(self.targets)] = np.nan
        return source

    def pairs(self, series: Series, span: Span) -> Iterator[Pair]:
        """Yield the windows of a span in order, without those whose targets are all missing.

        Windows overlap, so they share one table: a copy of each would take ``lookback + horizon`` times its memory.
        """
        steps = len(series.numbers)
        numbers, targets = series.values(self.columns, 0, steps), series.measured_values(self.targets, 0, steps)
        numbers.flags.writeable = targets.flags.writeable = False
        for start in self.valid_starts(series, span).tolist():
            end = start + self.horizon
            source = self.source(numbers, start)
            yield Pair(
                source=series.labels[start - self.lookback : start - self.lookback + len(source)],
                references=(series.labels[start:end],),
                features=source,
                target=targets[start:end],  # missing values are NaN
                name=f"{series.name} {series.labels[start]}".strip(),
            )


def source_notes(windows: WindowSpec, series: Series, start: int, usual_step: float | None) -> list[str]:
    """Return notes on the last window of a series, which forecasts from step ``start`` on: what is odd or not read."""
    first, end = start - windows.lookback, len(series.numbers)
    notes = filled_notes(series.part(windows.columns, first, start))
    notes += filled_notes(series.part(windows.known_columns, start, end))
    notes += irregular_steps_note(series.part((), first, end), usual_step)
    if not np.isnan(series.measured_values(windows.targets, start, end)).all():
        notes.append(
            f"the last task.horizon={windows.horizon} rows are forecast, and their values of the targets are not read; "
            "append rows with empty targets to forecast later times"
        )
    return notes


def time_order(pairs: Sequence[Pair]) -> tuple[list[int], int]:
    """Return the indices of windows in order of time, series by series, and how many windows overlap on average.

    Windows overlap if they forecast the same steps: a window, and those that start later but before its end.
    """
    windows = [(pair.name.removesuffix(pair.references[0][0]), pair.references[0]) for pair in pairs]
    start_keys = [(name, parse_time(labels[0], name)) for name, labels in windows]
    order = sorted(range(len(pairs)), key=start_keys.__getitem__)
    starts = [start_keys[index] for index in order]
    ends = [(windows[index][0], parse_time(windows[index][1][-1], windows[index][0])) for index in order]
    overlap = sum(bisect_right(starts, end) - position for position, end in enumerate(ends))
    return order, max(1, round(overlap / max(len(pairs), 1)))


class WindowDataset(NamedTuple):
    """Windows of equal length over concatenated series, made when they are read."""

    flat: Matrix  # (n, f) the series, scaled
    offsets: npt.NDArray[np.int64]  # start of each window, and one entry more
    steps: int  # length of a window
    visible_steps: int  # steps with all columns; in later ones the first ``num_hidden_columns`` are zeros
    num_hidden_columns: int = 0  # see above

    def row(self, index: int) -> Matrix:
        """(steps, f) one window."""
        start = int(self.offsets[index])
        window = self.flat[start : start + self.steps]
        if self.visible_steps < self.steps:
            window = window.copy()
            window[self.visible_steps :, : self.num_hidden_columns] = 0
        return window

    def lengths(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the lengths of windows, which are all equal."""
        return np.full(len(indices), self.steps, dtype=np.int64)


def training_windows(
    windows: WindowSpec, parts: Sequence[tuple[Series, Span]], scales: tuple[FeatureScaler, FeatureScaler], stride: int
) -> PairDataset:
    """Return every ``stride``-th window of the spans as training rows, without copying windows.

    Sources contain filled values, targets NaN for missing ones. The stride is counted over the windows of all series
    together; ``scales`` are those of the source columns and of the target columns.
    """
    window_starts, offset = [], 0
    for series, span in parts:
        window_starts.append(offset + windows.valid_starts(series, span))
        offset += len(series.numbers)
    starts = np.concatenate(window_starts)[::stride]
    source, target = scales
    sources, targets = [], []
    for series, _ in parts:
        bounds = 0, len(series.numbers)
        sources.append(source.encode(series.values(source.columns, *bounds)))
        targets.append(target.encode(series.measured_values(target.columns, *bounds), np.nan))
    lookback, steps = windows.lookback, windows.lookback + (windows.horizon if windows.known_columns else 0)
    offsets = np.append(starts, offset)  # one more than there are windows
    return PairDataset(
        WindowDataset(np.concatenate(sources), offsets - lookback, steps, lookback, len(windows.targets)),
        WindowDataset(np.concatenate(targets), offsets, windows.horizon, windows.horizon),
    )


def window_scales(windows: WindowSpec, parts: Sequence[tuple[Series, Span]]) -> tuple[FeatureScaler, FeatureScaler]:
    """Return the scales of sources and targets over the training split."""
    source = FeatureScaler.of([series.values(windows.columns, *span) for series, span in parts], windows.columns)
    count = len(windows.targets)
    return source, FeatureScaler(source.mean[:count], source.scale[:count], windows.targets)

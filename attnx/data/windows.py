"""Windows over time series: so many steps to look back on, and those to forecast behind them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnx.data.batches import PairDataset
from attnx.data.examples import Pair
from attnx.data.features import Features, Matrix
from attnx.data.readers.series import Series, when


class Span(NamedTuple):
    """Which steps of a series are forecast: from ``start`` up to ``end``; what is looked back on may lie before."""

    start: int
    end: int


class WindowSpec(NamedTuple):
    """How windows are cut.

    Attributes:
        lookback: how many steps are read.
        horizon: how many behind them are forecast.
        targets: the columns that are forecast; they are read first.
        known: columns that are known before their time (of the calendar, or a static one): those of the forecast steps
            are read, too.
    """

    lookback: int
    horizon: int
    targets: tuple[str, ...]
    known: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """What a step of the source is made of."""
        return self.targets + self.known

    def starts(self, span: Span) -> range:
        """The first forecast step of each window; all of a window's forecast steps lie in the span."""
        return range(max(span.start, self.lookback), span.end - self.horizon + 1)

    def worth(self, series: Series, span: Span) -> npt.NDArray[np.int64]:
        """Those of :meth:`starts` behind which anything was measured of what is to be forecast.

        Before them every target was measured once: what nobody measured at first is filled in from what comes later.
        """
        starts = np.array(self.starts(span), dtype=np.int64)
        there = ~np.isnan(series.measured(self.targets, 0, len(series.numbers)))
        first = int(there.argmax(0).max()) if there.any(0).all() else len(there)
        before = np.append(0, np.cumsum(there.any(1)))
        kept: npt.NDArray[np.int64] = starts[(before[starts + self.horizon] > before[starts]) & (starts > first)]
        return kept

    def source(self, series: Series, start: int) -> Matrix:
        """(lookback, f) what is read, in the data's own units.

        With known columns (lookback + horizon, f): NaN stands for the targets of the steps that are forecast.
        """
        end = start + (self.horizon if self.known else 0)
        read = series.of(self.columns, start - self.lookback, end).astype(np.float32)
        read[self.lookback :, : len(self.targets)] = np.nan
        return read

    def target(self, series: Series, start: int) -> Matrix:
        """(horizon, targets) what is right, in the data's own units; NaN where nobody measured it."""
        right: Matrix = series.measured(self.targets, start, start + self.horizon).astype(np.float32)
        return right

    def pairs(self, series: Series, span: Span) -> Iterator[Pair]:
        """The windows of a span, one after the other; those of which nothing to forecast was measured are left out."""
        for start in self.worth(series, span).tolist():
            source = self.source(series, start)
            labels = series.labels[start - self.lookback : start - self.lookback + len(source)]
            yield Pair(
                source=labels,
                references=(series.labels[start : start + self.horizon],),
                features=source,
                target=self.target(series, start),
                name=f"{series.name} {series.labels[start]}".strip(),
            )


def following(pairs: Sequence[Pair]) -> tuple[list[int], int]:
    """Windows as they follow each other in time, series by series: their numbers, and how many overlap on average.

    What overlaps foretells the same steps: a window, and those behind it that begin before it ends.
    """
    whose = [(pair.name.removesuffix(pair.references[0][0]), pair.references[0]) for pair in pairs]
    begin = [(name, when(labels[0], name)) for name, labels in whose]
    order = sorted(range(len(pairs)), key=begin.__getitem__)
    starts = [begin[place] for place in order]
    ends = [(whose[place][0], when(whose[place][1][-1], whose[place][0])) for place in order]
    overlap = sum(bisect_right(starts, end) - number for number, end in enumerate(ends))
    return order, max(1, round(overlap / max(len(pairs), 1)))


class WindowDataset(NamedTuple):
    """Windows of one length over series that lie end to end, cut when they are asked for: none takes memory before.

    Attributes:
        flat: (n, f) the series, scaled.
        offsets: where each window begins, and one number more.
        steps: how many steps a window has.
        told: of how many of them everything is told; in those behind, the first ``hidden`` columns are zeros.
        hidden: see above.
    """

    flat: Matrix
    offsets: npt.NDArray[np.int64]
    steps: int
    told: int
    hidden: int = 0

    def row(self, i: int) -> Matrix:
        """(steps, f) one window."""
        start = int(self.offsets[i])
        window = self.flat[start : start + self.steps]
        if self.told < self.steps:
            window = window.copy()
            window[self.told :, : self.hidden] = 0
        return window

    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many steps the windows ``rows`` have: all alike."""
        return np.full(len(rows), self.steps, dtype=np.int64)


def cut(
    windows: WindowSpec, read: Sequence[tuple[Series, Span]], scales: tuple[Features, Features], stride: int
) -> PairDataset:
    """Every ``stride``-th window of the spans, to train on: the series are held once, and no window is copied.

    Sources hold what was filled in, targets NaN in its place.

    Args:
        windows: how they are cut.
        read: series, and which of their steps are forecast.
        scales: of the sources' columns and of the targets'.
        stride: counted over the windows of all series together.
    """
    begins, before = [], 0
    for series, span in read:
        begins.append(before + windows.worth(series, span))
        before += len(series.numbers)
    starts = np.concatenate(begins)[::stride]
    source, target = scales
    wholes = [(series, 0, len(series.numbers)) for series, _ in read]
    sides = [
        np.concatenate([source.encode(series.of(source.columns, *whole)) for series, *whole in wholes]),
        np.concatenate([target.encode(series.measured(target.columns, *whole), np.nan) for series, *whole in wholes]),
    ]
    lookback, steps = windows.lookback, windows.lookback + (windows.horizon if windows.known else 0)
    ends = np.append(starts, before)  # a row more than there are windows
    return PairDataset(
        WindowDataset(sides[0], ends - lookback, steps, lookback, len(windows.targets)),
        WindowDataset(sides[1], ends, windows.horizon, windows.horizon),
        np.arange(len(starts)),
    )


def scaled(windows: WindowSpec, read: Sequence[tuple[Series, Span]]) -> tuple[Features, Features]:
    """How sources and targets are scaled: by the steps of the training part alone."""
    source = Features.of([series.of(windows.columns, *span) for series, span in read], windows.columns)
    count = len(windows.targets)
    return source, Features(source.mean[:count], source.scale[:count], windows.targets)

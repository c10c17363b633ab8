"""The task ``forecasting``: what comes next in a time series of one or many columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from attnx.data.baselines import Baseline, Linear, Naive, Seasonal
from attnx.data.batches import PairDataset
from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.data.examples import Pair, Symbols
from attnx.data.features import Features
from attnx.data.paths import fill_in
from attnx.data.readers.series import Series, constant, filled, irregular, read_series
from attnx.data.series_file import write_series
from attnx.data.series_split import SeriesSplit, cut_series, describe_rows
from attnx.data.split import Splits
from attnx.data.windows import Span, WindowSpec, cut, following, scaled
from attnx.errors import UserError, reject_duplicates
from attnx.nn.targets.forecast import median_first
from attnx.registry import Natural, Positive, Probability, register
from attnx.runs.layout import TARGET_FEATURES
from attnx.tasks.forecast_measures import forecast_metrics, update_forecast_metrics
from attnx.tasks.protocols import SequenceData

LINEAR = "linear.npy"
# From at most so many windows the linear baseline is fitted: its weights are few.
FITTED = 20_000


@register("task", "forecasting")
class Forecasting:
    """Forecast the next ``horizon`` steps of a time series from the ``lookback`` steps before.

    Formula: ``minimize mean (y - f(x))^2`` of scaled numbers, or with ``quantiles`` their own loss
    Source: Zhou et al. 2021, section 5 (protocol), https://arxiv.org/abs/2012.07436

    ``file`` is a .csv or .parquet file, a row a step, in order of time; ``header`` says whether its first row names the
    columns, which are else called 1, 2 and so on (left out: it does, and one that may be data is refused). ``time`` is
    the column of the times (ISO 8601 or numbers); ``targets`` are the columns to forecast (none named: all that are
    left); ``known`` are columns known before their time, such as the hour, a holiday, or a static property: those of
    the steps to forecast are read, too. ``group`` is the column that says which of several series a row belongs to. A
    missing value is read as the last one before it, and is no target: neither loss nor measures count it.

    ``split`` cuts each series in time into train, valid and test: by a ratio such as ``7:1:2``, by numbers of rows such
    as ``[8640,2880,2880]``, or as ``ett``, 12, 4 and 4 months of 30 days, as papers cut the ETT series. Windows to
    validate and test on are forecast in their part alone, and look back beyond it; to train on, every ``stride``-th is
    taken. ``test`` is another file, all of which takes the place of the test part. Columns are scaled by the training
    part. ``forecast=direct`` writes all steps without reading any of them, ``recursive`` reads at each step what was
    written before. ``from_last`` tells the model each window, and has it forecast, from the last value on, which suits
    series whose level wanders (Zeng et al. 2023, section 4.2). With ``quantiles`` these are forecast, the median (0.5,
    which must be among them) being what is compared.

    Beside the model's errors stand those of forecasts that cost nothing: ``naive``, the last value; ``seasonal``, what
    was ``season`` steps before; ``linear``, a linear map fitted to the training part.
    """

    monitor = "valid_mse"
    maximize = False
    data_files = ("file", "test")
    smoothing = 0.0
    # What is predicted from are files of series.
    reads_files = True

    def __init__(
        self,
        file: str | None = None,
        test: str | None = None,
        header: bool | None = None,
        time: Natural | str | None = None,
        targets: list[Natural | str] | None = None,
        known: list[Natural | str] | None = None,
        group: Natural | str | None = None,
        lookback: Positive = 96,
        horizon: Positive = 24,
        split: str | list[Positive] = "7:1:2",
        stride: Positive = 1,
        forecast: Literal["direct", "recursive"] = "direct",
        quantiles: list[Probability] | None = None,
        from_last: bool = False,
        season: Positive = 24,
    ) -> None:
        self.file, self.files = file, {"test": test}
        self.header = header
        self.time, self.group = (None if name is None else str(name) for name in (time, group))
        self.targets, self.known = list(map(str, targets or [])), list(map(str, known or []))
        self.lookback, self.horizon, self.stride, self.season = lookback, horizon, stride, season
        self.split, self.quantiles = SeriesSplit.read(split), quantiles or []
        self.notes: list[str] = []
        self.scales: Features | None = None
        self.test_part: list[tuple[Series, Span]] = []
        self.baselines: dict[str, Baseline] = {"naive": Naive(horizon), "seasonal": Seasonal(horizon, season)}
        del forecast, from_last  # read where the target side is made
        self._check()

    def _check(self) -> None:
        if self.quantiles and 0.5 not in self.quantiles:
            raise UserError(f"task.quantiles={self.quantiles}: the median, 0.5, must be among them")
        if edge := [level for level in self.quantiles if level in (0, 1)]:
            raise UserError(f"task.quantiles: {edge[0]:g} is no quantile that can be learned; use one between 0 and 1")
        for knob, named in (("targets", self.targets), ("known", self.known)):
            reject_duplicates(f"task.{knob}", named, "column")
        if both := sorted(set(self.targets) & set(self.known)):
            raise UserError(f"task.known: {both[0]!r} is one of task.targets; what is forecast is not known before")

    def load(self) -> SequenceData:
        """Read the series and cut them into windows; ``notes`` then tells what is missing, irregular or constant.

        Raises:
            UserError: the file is missing or malformed, with file and line, or too short for what is asked.
        """
        if self.file is None:
            raise UserError("task.file is not set: name a .csv or .parquet file of a time series")
        read = self._series(fill_in("task.file", self.file))
        windows = self._windows(read[0])
        parts = [(series, cut_series(series, windows, self.split)) for series in read]
        notes = [describe_rows(self.split, parts, not self.files["test"]), *self.notes]
        own = [(series, span["test"]) for series, span in parts]
        self.test_part = self._other(windows) if self.files["test"] else own
        self.notes = [*notes, *(note for note in self.notes if note not in notes)]
        train = [(series, span["train"]) for series, span in parts]
        scales = scaled(windows, train)
        rows = cut(windows, train, scales, self.stride)
        self.scales = scales[1]
        self.baselines["linear"] = Linear.fit(self._examples(rows))
        valid, test = (
            [pair for series, span in part for pair in windows.pairs(series, span)]
            for part in ([(series, span["valid"]) for series, span in parts], self.test_part)
        )
        return SequenceData(Splits([], valid, test), *scales, rows=rows)

    def test_pairs(self) -> list[Pair]:
        """The windows of ``test``, all of it."""
        found = self._other()
        windows = self._windows(found[0][0])
        return [pair for series, span in found for pair in windows.pairs(series, span)]

    def _other(self, windows: WindowSpec | None = None) -> list[tuple[Series, Span]]:
        """All of ``test``, whose columns must be those of the windows if there are any."""
        named = f"task.test={self.files['test']}"
        read = self._series(fill_in("task.test", str(self.files["test"])))
        windows = windows or self._windows(read[0])
        if lacking := [name for name in windows.columns if name not in read[0].columns]:
            raise UserError(f"{named}: has no column {lacking[0]!r}")
        found = [(series, Span(0, len(series.numbers))) for series in read]
        if not any(len(windows.worth(series, span)) for series, span in found):
            raise UserError(f"{named}: has no {self.lookback} + {self.horizon} steps, which a window takes")
        return found

    def read(self, path: Path) -> Pair:
        """What is to be forecast for a user's file: the steps behind its last one.

        Of known columns it holds the steps to forecast, too, with the targets left empty.

        Raises:
            UserError: it is malformed, holds several series, or is too short.
        """
        read = self._series(path)
        if len(read) > 1:
            raise UserError(f"{path}: holds {len(read)} series; name a file with one")
        windows, series = self._windows(read[0]), read[0]
        start = len(series.numbers) - (self.horizon if self.known else 0)
        if start < self.lookback:
            ahead = f" and behind them task.horizon={self.horizon} known ones" if self.known else ""
            raise UserError(
                f"{path}: has {len(series.numbers)} steps, and task.lookback={self.lookback}{ahead} are read"
            )
        source = windows.source(series, start)
        nothing = np.zeros((self.horizon, len(windows.targets)), np.float32)
        labels = series.labels[start - self.lookback :]
        return Pair(labels, (labels[self.lookback :],), features=source, target=nothing, name=path.name)

    def check_source(self, matrix: Any) -> None:
        """See that a matrix is as long as a window.

        Raises:
            UserError: it is not.
        """
        steps = self.lookback + (self.horizon if self.known else 0)
        if len(matrix) != steps:
            ahead = f" + task.horizon={self.horizon}" if self.known else ""
            raise UserError(f"a matrix of {len(matrix)} steps, but task.lookback={self.lookback}{ahead} are read")

    def _series(self, path: Path) -> list[Series]:
        targets = self._own()
        columns = [*targets, *self.known] if targets else []
        read = [filled(series) for series in read_series(path, self.time, columns, self.group, self.header)]
        self.notes = [note for series, notes in read for note in (*notes, *irregular(series), *constant(series))]
        return [series for series, _ in read]

    def _own(self) -> tuple[str, ...]:
        """The targets, if they are named or the run was trained on them; else a file's header says them."""
        return tuple(self.targets) or (() if self.scales is None else self.scales.columns)

    def _windows(self, series: Series) -> WindowSpec:
        if unknown := [name for name in self.known if name not in series.columns]:
            raise UserError(f"task.known: the file has no column {unknown[0]!r}")
        targets = self._own() or tuple(name for name in series.columns if name not in self.known)
        if not targets:
            raise UserError("no column is left to forecast; name task.targets, or fewer of task.known")
        return WindowSpec(self.lookback, self.horizon, targets, tuple(self.known))

    def _examples(self, rows: PairDataset) -> Iterator[tuple[Any, Any]]:
        """Of each window, or of so many evenly among them, the past and the future of the targets, scaled."""
        assert self.scales is not None
        for place in evenly_spaced_indices(len(rows), FITTED):
            row = rows[place]
            yield row.source[: self.lookback, : self.scales.width], row.target

    def _past(self, pair: Pair) -> Any:
        assert self.scales is not None
        assert pair.features is not None
        return self.scales.encode(pair.features[: self.lookback, : self.scales.width])

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Errors of scaled numbers and, behind ``own_``, in the data's units; of the model and of each baseline."""
        assert self.scales is not None
        return forecast_metrics(self.scales.width, self.baselines, median_first(self.quantiles))

    def update(self, metrics: Any, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the matrix (horizon, f) forecast for each window, quantile behind quantile."""
        assert self.scales is not None
        right = [pair.target for pair in pairs if pair.target is not None]
        pasts = [self._past(pair) for pair in pairs]
        forecasts = {name: [baseline(past) for past in pasts] for name, baseline in self.baselines.items()}
        update_forecast_metrics(metrics, self.scales, outputs, right, forecasts)

    def neighbors(self, pairs: Sequence[Pair]) -> tuple[list[int], int]:
        """Windows as they follow each other, and how many foretell the same steps."""
        return following(pairs)

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A series is no text."""
        raise UserError("this task reads matrices of numbers, not text; name files of features to attnx predict")

    def text(self, symbols: Sequence[str]) -> str:
        """A forecast is no text."""
        raise UserError("this task writes matrices of numbers, not text")

    def save(self, folder: Path) -> None:
        """Write the linear forecast's map, and the test's series for the pictures."""
        linear = self.baselines["linear"]
        assert isinstance(linear, Linear)
        linear.save(folder / LINEAR)
        write_series(folder, [self._seen(series, span) for series, span in self.test_part])

    def _seen(self, series: Series, span: Span) -> Series:
        """Of a series the targets of the test part and of what is looked back on from there."""
        start, targets = max(span.start - self.lookback, 0), self._windows(series).targets
        return Series(
            series.name,
            series.of(targets, start, span.end),
            targets,
            series.times[start : span.end],
            series.labels[start : span.end],
        )

    def restore(self, folder: Path) -> None:
        """Read it, and how the targets are scaled."""
        self.scales = Features.load(folder / TARGET_FEATURES)
        self.baselines["linear"] = Linear.load(folder / LINEAR)

"""The task ``forecasting``: forecast a time series of one or many columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.paths import resolve_data_path
from attnx.data.splits import Splits
from attnx.errors import UserError, reject_duplicates
from attnx.files.parse_number import count_phrase
from attnx.registry import NonNegativeInt, PositiveInt, Probability, register
from attnx.runs.layout import TARGET_FEATURES
from attnx.tasks.contract import SequenceData, SequenceTask, TaskOutput

from .baselines import LINEAR_BASELINE, Baseline, Linear, repeat_season
from .metrics import ALL_STEPS_METRICS, QUANTILE_LOSS, forecast_metrics, update_forecast_metrics
from .series import Series, fill_missing, irregular_steps_note, read_series, read_test_series, write_test_series
from .series_split import SeriesSplit, constant_column_notes, overlap_note, split_note, split_series
from .target import ForecastTarget, median_first
from .windows import Span, WindowSpec, source_notes, time_order, training_windows, window_scales

# The linear baseline has few weights and needs no more windows.
MAX_WINDOWS_FOR_LINEAR = 20_000


@register(
    "task",
    "forecasting",
    leaves_unread_if={"model.scheduled_sampling": "forecast=direct"},
    baselines={"naive": "the last value", "seasonal": "the last season", "linear": "linear"},
    figures={"predictions": ".figures.draw_forecasts"},
    pictures={"forecasts.png": "some test windows: the past, the reference and the forecast"},
    metric_facts={
        "rse": {
            "higher_is_better": False,
            "is_error": True,
            "label": "RSE",
            "unit": "root relative squared error of the last step, 1 is the mean",
        },
        "corr": {"higher_is_better": True, "label": "CORR", "unit": "correlation of the last step, mean over columns"},
        "own_mse": {"unit": "in the data's units"},
        "own_mae": {"unit": "in the data's units"},
    },
)
class Forecasting(SequenceTask):
    """Forecast the next ``horizon`` steps of a time series from the ``lookback`` steps before.

    Formula: ``minimize mean (y - f(x))^2`` of scaled numbers; with ``quantiles`` the quantile loss
    Source: Zhou et al. 2021, section 5 (protocol), https://arxiv.org/abs/2012.07436

    ``file`` is a .csv file, a row per step, in order of time. ``header`` says whether its first row names
    the columns, which are else called 1, 2 and so on; by default it does, and a first row that may be data is an error.
    ``time_column`` has the times (ISO 8601 or numbers). ``target_columns`` are forecast, by default all others.
    ``known_columns`` are known in advance, such as the hour, a holiday, or a static property: they are read for the
    forecast steps too. ``group_column`` has the name of a row's series. A missing value is read as the last one before
    it, and is not a target: neither loss nor metrics count it.

    ``split`` cuts each series in time into train, valid and test: by a ratio such as ``7:1:2``, by numbers of rows such
    as ``[8640,2880,2880]``, at the two times at which valid and test begin, such as ``[2016-01-01,2016-06-01]``, or as
    ``ett``, 12, 4 and 4 months of 30 days, as papers split the ETT series. Forecast
    steps of valid and test windows are in their part, but the lookback may start before it; training takes every
    ``stride``-th window. ``test`` is another file, which replaces the test split. Columns are scaled by the training
    part. ``forecast=direct`` writes all steps without reading any of them, ``recursive`` reads the previous output at
    each step. ``subtract_last_value`` subtracts each window's last value from source and target, which suits series
    whose level changes (Zeng et al. 2023, section 4.2). ``quantiles`` are forecast instead of the mean; the median
    (0.5), which must be among them, is compared.

    Errors of three baselines are reported with the model's: ``naive``, the last value; ``seasonal``, the value
    ``season_length`` steps before; ``linear``, a linear map fitted to the training split.
    """

    monitor = "valid_mse"
    maximize = False
    data_files = ("file", "test")
    label_smoothing = 0.0
    leaves_unread = (
        "decoding.max_length_ratio",
        "decoding.max_length_extra",
        "decoding.min_length",
        "decoding.no_repeat_ngram_size",
    )
    # Inputs of predictions are files of series.
    has_file_inputs = True

    def __init__(
        self,
        file: str | None = None,
        test: str | None = None,
        header: bool | None = None,
        time_column: NonNegativeInt | str | None = None,
        target_columns: list[NonNegativeInt | str] | None = None,
        known_columns: list[NonNegativeInt | str] | None = None,
        group_column: NonNegativeInt | str | None = None,
        lookback: PositiveInt = 96,
        horizon: PositiveInt = 24,
        split: str | list[PositiveInt | str] = "7:1:2",
        stride: PositiveInt = 1,
        forecast: Literal["direct", "recursive"] = "direct",
        quantiles: list[Probability] | None = None,
        subtract_last_value: bool = False,
        season_length: PositiveInt = 24,
    ) -> None:
        self.file, self.test, self.header = file, test, header
        self.time_column = None if time_column is None else str(time_column)
        self.group_column = None if group_column is None else str(group_column)
        # Without names the targets follow from the file's header.
        self.target_columns = tuple(map(str, target_columns or ()))
        self.known_columns = tuple(map(str, known_columns or ()))
        self.lookback, self.horizon, self.stride, self.season_length = lookback, horizon, stride, season_length
        self.split, self.quantiles = SeriesSplit.parse(split), quantiles or []
        self.notes: list[str] = []
        self.scales: FeatureScaler | None = None
        self.test_part: list[tuple[Series, Span]] = []
        self.usual_step: float | None = None  # of the first series, in seconds or numbers
        self.baseline_forecasts: dict[str, Baseline] = {
            "naive": partial(repeat_season, horizon=horizon, season=1),
            "seasonal": partial(repeat_season, horizon=horizon, season=season_length),
        }
        self.forecast, self.subtract_last_value = forecast, subtract_last_value  # of the model's target
        if self.split.starts and not self.time_column:
            raise UserError(f"task.split={self.split.text} names times: set task.time_column to their column")
        if self.quantiles and 0.5 not in self.quantiles:
            raise UserError(f"task.quantiles={self.quantiles}: the median, 0.5, must be among them")
        reject_duplicates("task.quantiles", list(map(str, self.quantiles)), "quantile")
        if edge := [level for level in self.quantiles if level in (0, 1)]:
            raise UserError(f"task.quantiles: {edge[0]:g} cannot be learned; use quantiles between 0 and 1")
        for option, columns in (("target_columns", self.target_columns), ("known_columns", self.known_columns)):
            reject_duplicates(f"task.{option}", columns, "column")
        if both := sorted(set(self.target_columns) & set(self.known_columns)):
            raise UserError(
                f"task.known_columns: {both[0]!r} is also in task.target_columns, which are not known in advance"
            )

    def load(self) -> SequenceData:
        """Read the series and cut them into windows; ``notes`` then lists missing values and irregular steps."""
        if self.file is None:
            raise UserError("task.file is not set: name a .csv file of a time series")
        self.notes = []
        series = self._read_series(resolve_data_path("task.file", self.file))
        windows = self._window_spec(series[0])
        self.target_columns = windows.targets
        parts = [(item, split_series(item, windows, self.split)) for item in series]
        train, valid, test = ([(item, spans[part]) for item, spans in parts] for part in ("train", "valid", "test"))
        notes = [split_note(self.split, parts, not self.test)]
        if self.time_column:
            notes += overlap_note(self.split, parts, not self.test)
        if self.season_length > self.lookback:
            notes.append(
                f"task.season_length={self.season_length} is longer than task.lookback={self.lookback}: the seasonal "
                "baseline repeats the whole lookback"
            )
        self.test_part = self._read_test() if self.test else test
        notes += constant_column_notes(windows, train)
        self.notes = list(dict.fromkeys([*notes, *self.notes]))
        scales = window_scales(windows, train)
        rows = training_windows(windows, train, scales, self.stride)
        self.scales = scales[1]
        examples: Iterator[Any] = (rows[index] for index in evenly_spaced_indices(len(rows), MAX_WINDOWS_FOR_LINEAR))
        width = self.scales.width
        self.baseline_forecasts["linear"] = Linear.fit(
            (row.source[: self.lookback, :width], row.target) for row in examples
        )
        pairs = Splits[Pair]([], _make_pairs(windows, valid), _make_pairs(windows, self.test_part))
        return SequenceData(pairs, scales[0], scales[1], rows=rows)

    def test_pairs(self) -> list[Pair]:
        """Read the windows of the complete file ``test``."""
        test = self._read_test()
        return _make_pairs(self._window_spec(test[0][0]), test)

    def _read_test(self) -> list[tuple[Series, Span]]:
        """Read the file ``test``, which must have the columns of the windows."""
        location = f"task.test={self.test}"
        test = self._read_series(resolve_data_path("task.test", str(self.test)))
        windows = self._window_spec(test[0])
        part = [(series, Span(0, len(series.numbers))) for series in test]
        if not any(windows.starts(span) for _, span in part):
            raise UserError(f"{location}: is shorter than a window of {self.lookback} + {self.horizon} steps")
        if not any(len(windows.valid_starts(series, span)) for series, span in part):
            raise UserError(f"{location}: no window has measured values of {', '.join(windows.targets)}")
        return part

    def read_source(self, path: Path) -> Pair:
        """Read a user's file, to forecast the steps after its last one.

        With known columns the file has rows for the forecast steps too, with empty targets; ``notes`` then says if they
        are not empty, and what is odd about the rows that are read. Several series, and one that is too short, are
        UserErrors.
        """
        series, *further = self._read_series(path)
        if further:
            raise UserError(f"{path}: holds {1 + len(further)} series; name a file with one")
        windows = self._window_spec(series)
        start = len(series.numbers) - (self.horizon if self.known_columns else 0)
        if start < self.lookback:
            raise UserError(
                f"{path}: has {count_phrase(len(series.numbers), 'step')}, but {self._source_steps()} are needed"
            )
        notes = source_notes(windows, series, start, self.usual_step)
        self.notes = [f"{path}: {note}" for note in notes]
        source = windows.source(series.values(windows.columns, 0, len(series.numbers)), start)
        target = np.zeros((self.horizon, len(windows.targets)), np.float32)
        labels = series.labels[start - self.lookback :]
        return Pair(labels, (labels[self.lookback :],), features=source, target=target, name=path.name)

    @property
    def num_source_steps(self) -> int:
        """How many steps a source has: the window, and the forecast's steps if anything is known of them."""
        return self.lookback + (self.horizon if self.known_columns else 0)

    def check_source(self, matrix: Any) -> None:
        """Raise a UserError if a matrix is not as long as a window."""
        if len(matrix) != self.num_source_steps:
            raise UserError(f"a matrix of {count_phrase(len(matrix), 'step')}, but {self._source_steps()} are needed")

    def _source_steps(self) -> str:
        known_part = f" and task.horizon={self.horizon} known ones after them" if self.known_columns else ""
        return f"task.lookback={self.lookback}{known_part}"

    def _read_series(self, path: Path) -> list[Series]:
        """Read the columns of the windows; all columns if the targets follow from them."""
        columns = self.target_columns + self.known_columns if self.target_columns else ()
        series = read_series(path, self.time_column, columns, self.group_column, self.header, self.notes)
        filled = [fill_missing(item, str(path)) for item in series]
        self.usual_step = self.usual_step or series[0].usual_step
        self.notes += [
            note for item, notes in filled for note in (*notes, *irregular_steps_note(item, self.usual_step))
        ]
        return [item for item, _ in filled]

    def _window_spec(self, series: Series) -> WindowSpec:
        if unknown := [name for name in self.known_columns if name not in series.columns]:
            raise UserError(f"task.known_columns: the file has no column {unknown[0]!r}")
        targets = self.target_columns or tuple(name for name in series.columns if name not in self.known_columns)
        if not targets:
            raise UserError("no column is left to forecast; name task.target_columns, or fewer of task.known_columns")
        return WindowSpec(self.lookback, self.horizon, targets, self.known_columns)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build the errors of the model and each baseline, of scaled numbers and, as ``own_*``, in the data's units."""
        assert self.scales is not None
        return forecast_metrics(self.scales, self.baselines, median_first(self.quantiles))

    def update(self, metrics: Any, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch of forecasts (horizon, f), or quantiles side by side."""
        assert self.scales is not None
        references = [pair.target for pair in pairs if pair.target is not None]
        sources = [pair.features for pair in pairs if pair.features is not None]
        pasts = [self.scales.encode(source[: self.lookback, : self.scales.width]) for source in sources]
        baselines = {name: [baseline(past) for past in pasts] for name, baseline in self.baseline_forecasts.items()}
        forecasts = [np.asarray(output, np.float64) for output in outputs]
        update_forecast_metrics(metrics, self.scales, forecasts, references, baselines)

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """Return the scales of the scaled errors."""
        assert self.scales is not None
        names = (*ALL_STEPS_METRICS, QUANTILE_LOSS) if self.quantiles else ALL_STEPS_METRICS
        return dict.fromkeys(names, self.scales.signature)

    @classmethod
    def build_target(cls, options: Mapping[str, Any], symbols: int, features: int) -> ForecastTarget:
        """Build the target: ``horizon`` rows, as means or quantiles."""
        quantiles, recursive = median_first(options["quantiles"] or []), options["forecast"] == "recursive"
        return ForecastTarget(features, options["horizon"], quantiles, recursive, options["subtract_last_value"])

    def neighbors(self, pairs: Sequence[Pair]) -> tuple[list[int], int]:
        """Return the windows' order in time, and how many overlap."""
        return time_order(pairs)

    def save(self, folder: Path) -> None:
        """Write the linear baseline, and the test series for figures."""
        linear = self.baseline_forecasts["linear"]
        assert isinstance(linear, Linear)
        linear.save(folder / LINEAR_BASELINE)
        drawn = []  # the targets of each test split and of its first lookback
        for series, span in self.test_part:
            drawn.append(series.part(self.target_columns, max(span.start - self.lookback, 0), span.end))
        write_test_series(folder, drawn)

    def restore(self, folder: Path) -> None:
        """Read the linear baseline, the scales of the targets, and how long a step is."""
        self.scales = FeatureScaler.load(folder / TARGET_FEATURES)
        self.target_columns = self.scales.columns
        self.baseline_forecasts["linear"] = Linear.load(folder / LINEAR_BASELINE)
        self.usual_step = next((series.usual_step for series in read_test_series(folder)), None)


def _make_pairs(windows: WindowSpec, part: list[tuple[Series, Span]]) -> list[Pair]:
    return [pair for series, span in part for pair in windows.pairs(series, span)]

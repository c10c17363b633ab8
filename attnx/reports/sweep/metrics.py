"""Metrics by which runs are compared, and the scale of each: errors by their ratios, scores by their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnx.reports.metric_names import (
    MAX_PERCENT,
    TEST,
    VALID,
    is_error,
    is_higher_better,
    is_percent,
    metric_base,
    metric_label,
    metric_unit,
)
from attnx.reports.significant_digits import format_fixed, p_value
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.results import CONTEXTS

MAX_VALUE = 1e150  # whose square is a number; no value is NaN, which is less than nothing
COSTS = {
    "steps": "steps",
    "train_seconds": "training, s",
    "train_cpu_seconds": "CPU time, s",
    "train_examples_per_second": "examples/s",
    "peak_memory_mb": "memory, MB",
    "peak_gpu_memory_mb": "GPU memory, MB",
    "parameters": "parameters",
    "train_flops": "FLOPs a training token",
    "state_bytes": "state, bytes",
    **{
        f"{name}_{context}": f"{label} at {context:,}"
        for name, label in (
            ("decode_flops", "FLOPs a decoded token"),
            ("state_bytes", "bytes of state"),
            ("decode_ms", "ms a decoded token"),
            ("decode_memory_mb", "memory of decoding, MB,"),
        )
        for context in CONTEXTS
    },
}
"""Results that say what a run costs, and their names."""
INTERVAL = "{} to {}"
ROUNDING = 1e-4  # of the last digit that is shown
MAX_LOGARITHM = 700.0  # of a number that can be written


class Metric(NamedTuple):
    """A metric of runs: its key in results.json or, for validation metrics, in metrics.csv, and its name in text.

    ``digits`` are those after the decimal point.
    """

    key: str
    label: str
    is_higher_better: bool
    digits: int
    unit: str

    @property
    def worst(self) -> float | None:
        """The value of outputs of which nothing is right, which an error rate may exceed; None if there is none."""
        if self.is_higher_better:
            return 0.0 if is_percent(self.key) or metric_base(self.key, ("bleu", "chrf")) else None
        return MAX_PERCENT if is_percent(self.key) else None

    def format(self, value: float) -> str:
        """A value as text; none is written as zero but what rounding made of one."""
        return format_fixed(value if abs(value) > ROUNDING * 10**-self.digits else 0.0, self.digits)

    @property
    def percent_sign(self) -> str:
        """What stands behind a number in a sentence, in which a longer unit would not fit."""
        return " %" if self.unit.startswith("%") else ""

    def interval_cell(self, low: float | None, high: float | None, form: str = INTERVAL) -> str:
        """An interval as text; "" without one."""
        return "" if low is None or high is None else form.format(self.format(low), self.format(high))

    def difference_cells(self, difference: MeanDifference | None, form: str = INTERVAL) -> list[str]:
        """A difference, its interval and p as text; empty cells without one."""
        if difference is None:
            return ["", "", ""]
        interval = self.interval_cell(difference.low, difference.high, form)
        return [self.format(difference.difference), interval, p_value(difference.p)]


def list_metrics(runs: Sequence[RunRecord]) -> list[Metric]:
    """All metrics of runs with one monitored metric, first the test metric that corresponds to it."""
    monitor = runs[0].monitor
    primary = monitor.replace(VALID, TEST, 1)
    keys = dict.fromkeys([primary, *(key for run in runs for key in run.results if key.startswith(TEST)), monitor])
    results = []
    for key in keys:
        values = [value for run in runs if (value := run_value(run, key)) is not None]
        is_main = key in (primary, monitor)
        is_higher = runs[0].maximize if is_main else is_higher_better(key)
        # A metric that is equal for all runs, such as a baseline's, ranks nothing, nor does one of several definitions.
        ranks = len({run.signature(key) for run in runs}) == 1 and (len({*values}) != 1 or len(values) == 1)
        if is_higher is not None and values and (is_main or ranks):
            unit = "%" if is_percent(key) else metric_unit(key)
            sizes = [abs(value) for value in values if value]
            digits = 4 if sizes and max(sizes) < 1 else 2
            digits = max(digits, *(1 - math.floor(math.log10(size)) for size in sizes if size < 10**-digits), 0)
            results.append(Metric(key, metric_label(key), is_higher, digits, unit))
    return results


def run_value(run: RunRecord, key: str) -> float | None:
    """A run's value of a metric; the best one if it is measured in validation."""
    if not key.startswith(VALID):
        return run.results.get(key)
    values = run.curves.get(key, {}).values()
    return (max if run.maximize else min)(values) if values else None


class Scale(NamedTuple):
    """Where less is better: the logarithm of an error, or a score as it is.

    The variance of error rates and squared errors over seeds grows with their mean, the variance of their logarithms
    much less. An accuracy is compared by its error, what it lacks of 100 %. BLEU, chrF, correlations, losses, lengths
    of tours and times stay as they are.
    """

    sign: int  #: -1 if higher values are better
    #: the error for which a smaller one counts, whose logarithm would be minus infinity; None without logarithms
    least: float | None = None
    lowest: float = -math.inf  #: the accuracy below which there is none: 0, or the lowest that was measured
    half_step: float = 0.0  #: of a share in percent, half of what one example adds to it; 0 of what is not counted

    def apply(self, values: ArrayLike) -> NDArray[np.float64]:
        """Values of the metric on the scale."""
        values = np.asarray(values, dtype=np.float64)
        if self.least is None:
            return self.sign * values
        return np.asarray(np.log(np.maximum(MAX_PERCENT - values if self.sign < 0 else values, self.least)))

    def invert(self, value: float) -> float:
        """The value of the metric at a place on the scale."""
        if self.least is None:
            return self.sign * value
        error = math.exp(min(value, MAX_LOGARITHM))
        return max(self.lowest, MAX_PERCENT - error) if self.sign < 0 else error

    def least_variance(self, place: float) -> float:
        """The variance of equal values at a place on the scale: what is within half a step of it is counted as equal.

        >>> scale = Scale(1, least=2.5, half_step=2.5)  # of 20 examples
        >>> [round(scale.least_variance(float(place)), 3) for place in scale.apply([0.0, 50.0])]
        [0.16, 0.001]
        """
        return math.log1p(self.half_step / math.exp(place)) ** 2 / 3 if self.half_step else 0.0

    def mean(self, values: Sequence[float]) -> float:
        """The mean on the scale, in the units of the metric: of errors the geometric one; within the values."""
        return min(max(self.invert(fmean(self.apply(values))), min(values)), max(values))

    def difference(self, best: float, difference: MeanDifference) -> MeanDifference:
        """A difference from a place on the scale, in the units of the metric; above zero is worse."""
        gap, low, high = (self.sign * (self.invert(best + end) - self.invert(best)) for end in difference[:3])
        return MeanDifference(gap, low, high, difference.p, difference.test)


def choose_scale(metric: Metric, values: Sequence[float], examples: float) -> Scale:
    """The scale for the values of all runs of a metric, tested on so many examples.

    The least error is half an example, or half the least one that was measured.
    """
    sign = -1 if metric.is_higher_better else 1
    errors = [MAX_PERCENT - value if sign < 0 else value for value in values]
    if not is_error(metric.key) or min(errors, default=-1.0) < 0 or not any(errors):
        return Scale(sign)
    half_an_example = MAX_PERCENT / 2 / max(1.0, examples)
    measured = min(error for error in errors if error > 0) / 2
    is_counted = is_percent(metric.key)
    least = min(measured, half_an_example) if is_counted else measured
    return Scale(sign, least, min(0.0, *values), half_step=least if is_counted else 0.0)

"""Metrics by which runs are compared, and whether higher is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from attnx.reports.metric_names import (
    MAX_PERCENT,
    TEST,
    VALID,
    is_higher_better,
    is_percent,
    metric_base,
    metric_label,
    metric_unit,
)
from attnx.reports.sweep.run_record import RunRecord


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
        """A value as text."""
        return f"{value:,.{self.digits}f}"


def list_metrics(runs: Sequence[RunRecord], monitor: str, maximize: bool) -> list[Metric]:
    """All metrics of runs, first the test metric that corresponds to the monitored one."""
    primary = monitor.replace(VALID, TEST, 1)
    keys = dict.fromkeys([primary, *(key for run in runs for key in run.results if key.startswith(TEST)), monitor])
    results = []
    for key in keys:
        values = [value for run in runs if (value := run_value(run, key)) is not None]
        is_main = key in (primary, monitor)
        is_higher = maximize if is_main else is_higher_better(key)
        # A metric that is equal for all runs, such as a baseline's, ranks nothing.
        if is_higher is not None and values and (is_main or len(set(values)) != 1 or len(values) == 1):
            unit = metric_unit(key) or ("%" if is_percent(key) else "")
            sizes = [abs(value) for value in values if value]
            digits = 4 if sizes and max(sizes) < 1 else 2
            digits = max(digits, *(1 - math.floor(math.log10(size)) for size in sizes if size < 10**-digits), 0)
            results.append(Metric(key, metric_label(key), is_higher, digits, unit))
    return results


def run_value(run: RunRecord, key: str) -> float | None:
    """A run's value of a metric; of a validation metric the best one."""
    if not key.startswith(VALID):
        return run.results.get(key)
    values = run.curves.get(key, {}).values()
    return (max if run.maximize else min)(values) if values else None

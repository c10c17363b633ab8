"""The measures by which runs can be compared, and whether more of each is better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attnx.reports.measure_names import PERCENT, TEST, VALID, label, measure_base, more_is_better
from attnx.reports.run.results_table import UNITS
from attnx.reports.sweep.load_runs import RunRecord


class Measure(NamedTuple):
    """Something measured of each run.

    Attributes:
        key: as in results.json; of validations, as in metrics.csv.
        label: as it is written.
        more: whether more is better.
        digits: after the point.
        unit: what its values are.
    """

    key: str
    label: str
    more: bool
    digits: int
    unit: str

    def said(self, value: float) -> str:
        """A value of it, in text."""
        return f"{value:,.{self.digits}f}"


def measures(runs: Sequence[RunRecord], monitor: str, maximize: bool) -> list[Measure]:
    """All of them, what the best weights were chosen by first, as it was in the test."""
    primary = monitor.replace(VALID, TEST, 1)
    keys = dict.fromkeys([primary, *(key for run in runs for key in run.results if key.startswith(TEST)), monitor])
    found = []
    for key in keys:
        values = [value for run in runs if (value := value_of(run, key)) is not None]
        more = maximize if key in (primary, monitor) else more_is_better(key)
        # What is the same for all, as what another forecast by rule, ranks nothing.
        if more is not None and values and (key in (primary, monitor) or len(set(values)) > 1 or len(values) == 1):
            unit = UNITS.get(key, "%" if measure_base(key, PERCENT) else "")
            found.append(Measure(key, label(key), more, _digits(values), unit))
    return found


def value_of(run: RunRecord, key: str) -> float | None:
    """What a run has by a measure: of one of validation its best."""
    if not key.startswith(VALID):
        return run.results.get(key)
    values = run.curves.get(key, {}).values()
    return (max if run.maximize else min)(values) if values else None


def _digits(values: Iterable[float]) -> int:
    """Two, or more where values are small."""
    largest = max(map(abs, values))
    return 2 if largest >= 1 or largest == 0 else 4

"""Ranks settings by a measure, and says of each how surely it is behind the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from attnx.reports.measure_names import TEST
from attnx.reports.seeds import EXAMPLES, Gap, gap_over_seeds, holm
from attnx.reports.sweep.gather import Found
from attnx.reports.sweep.measures import Measure, value_of
from attnx.reports.sweep.settings import Setting
from attnx.reports.sweep.tested import Numbers, Tested, rate, resampled

NEAR = 1.96  # standard errors of a 95 % interval
AGREE = 0.01  # points by which a rate counted again may differ from the one that was written


class Ranked(NamedTuple):
    """A setting by one measure.

    Attributes:
        place: its number among the settings.
        values: by seed.
        behind: how far behind the best it is, its interval and p-value, corrected; None of the best, or if that is
            unknown. Above zero is worse, whichever way the measure goes.
    """

    place: int
    values: dict[Any, float]
    behind: Gap | None

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.values.values())

    @property
    def sd(self) -> float | None:
        """Over seeds; None of one."""
        return stdev(self.values.values()) if len(self.values) > 1 else None


def ranked(settings: Sequence[Setting], measure: Measure, tests: dict[Any, Tested]) -> list[Ranked]:
    """Settings by a measure, best first; those that lack it are left out.

    Args:
        settings: all that are compared.
        measure: by what.
        tests: of runs by their folders, for settings with one seed.
    """
    rows = [Ranked(place, _values(setting.runs, measure), None) for place, setting in enumerate(settings)]
    rows = sorted((row for row in rows if row.values), key=lambda row: row.mean * (-1 if measure.more else 1))
    if len(rows) < 2:
        return rows
    best, *others = rows
    gaps = {row.place: _over_seeds(best, row, measure) for row in others}
    lacking = [row for row in others if gaps[row.place] is None]
    gaps |= _on_examples(settings, measure, tests, best, lacking) if lacking else {}
    known = [place for place in gaps if gaps[place] is not None]
    corrected = holm([gaps[place].p for place in known])  # type: ignore[union-attr]
    told = {place: gaps[place]._replace(p=p) for place, p in zip(known, corrected, strict=True)}  # type: ignore[union-attr]
    return [best, *(row._replace(behind=told.get(row.place)) for row in others)]


def _values(runs: Sequence[Found], measure: Measure) -> dict[Any, float]:
    found = {run.seed: value_of(run, measure.key) for run in runs}
    return {seed: value for seed, value in found.items() if value is not None and math.isfinite(value)}


def _over_seeds(best: Ranked, row: Ranked, measure: Measure) -> Gap | None:
    return gap_over_seeds(best.values, row.values) if measure.more else gap_over_seeds(row.values, best.values)


def _on_examples(
    settings: Sequence[Setting],
    measure: Measure,
    tests: dict[Any, Tested],
    best: Ranked,
    others: Sequence[Ranked],
) -> dict[int, Gap | None]:
    """Compare one run of each with one of the best, of the same seed if there is one, by bootstrap over the test."""
    pairs = {row.place: (_run(settings[row.place], row, best), _run(settings[best.place], best, row)) for row in others}
    drawn = _drawn(list({run.path: run for pair in pairs.values() for run in pair}.values()), measure, tests)
    sign = -1 if measure.more else 1
    return {
        place: _bootstrapped(run, other, measure, drawn, sign)
        for place, (run, other) in pairs.items()
        if run.path in drawn and other.path in drawn
    }


def _drawn(runs: Sequence[Found], measure: Measure, tests: dict[Any, Tested]) -> dict[Any, Numbers]:
    """The measure on other draws of the test: counted from the predictions, or as it was when the run was tested."""
    name = measure.key.removeprefix(TEST)
    again = [run.path for run in runs if _recounted(run, name, measure, tests)]
    if again:
        return dict(zip(again, resampled([tests[path] for path in again], name).T, strict=True))
    kept = {run.path: tests[run.path] for run in runs if run.path in tests and measure.key in tests[run.path].drawn}
    orders = {test.order for test in kept.values()}  # those of another order were drawn otherwise
    return {path: test.drawn[measure.key] for path, test in kept.items()} if len(orders) == 1 else {}


def _bootstrapped(run: Found, other: Found, measure: Measure, drawn: dict[Any, Any], sign: int) -> Gap:
    found = sign * (run.results[measure.key] - other.results[measure.key])
    error = float(np.std(drawn[run.path] - drawn[other.path], ddof=1))
    if error == 0:
        return Gap(found, found, found, 0.0 if found else 1.0, EXAMPLES)
    p = math.erfc(abs(found) / error / math.sqrt(2))
    return Gap(found, found - NEAR * error, found + NEAR * error, p, EXAMPLES)


def _run(setting: Setting, row: Ranked, beside: Ranked) -> Found:
    """One of a setting's runs that were measured, of a seed the other has too if there is one."""
    seeds = [seed for seed in row.values if seed in beside.values] or list(row.values)
    return next(run for run in setting.runs if run.seed == seeds[0])


def _recounted(run: Found, name: str, measure: Measure, tests: dict[Any, Tested]) -> bool:
    """Whether the predictions are there and give the value that was written; if not, they are not what it was of."""
    if not measure.key.startswith(TEST):
        return False
    found = rate(tests[run.path], name) if run.path in tests else None
    return found is not None and abs(found - run.results[measure.key]) < AGREE

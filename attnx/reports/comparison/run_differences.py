"""Differences between two runs with intervals and p-values, by shared test examples or saved draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.reports.comparison.shared_examples import Examples, count_errors, read_examples, shared_part
from attnx.reports.measure_names import MACRO
from attnx.reports.significant_digits import format_difference
from attnx.reports.stats.bootstrap import Difference, bootstrap_difference, difference_from_draws
from attnx.runs.run import Run

ABSENT: Final = "-"


class ComparedRun(NamedTuple):
    """A run or an evaluation, with its test.

    Attributes:
        run: its folder.
        heading: of its column.
        test: its test examples; None without a test.
        draws: its measures on bootstrap samples of the test.
    """

    run: Run
    heading: str
    test: Examples | None
    draws: Mapping[str, NDArray[np.float64]]


def differences_by_examples(first: ComparedRun, challenger: ComparedRun, rate: str) -> dict[str, str]:
    """The difference of a run from the first in an error rate, by the test examples that both share.

    Returns:
        a cell by the rate's name, and by that of the mean over tags if there are several; empty without a test.
    """
    if first.test is None or challenger.test is None:
        return {}
    baseline, test = shared_part([first.test, challenger.test])
    if not baseline.identities:
        return {rate: "no shared example"}
    errors = count_errors(test.predictions, rate), count_errors(baseline.predictions, rate)
    cells = {rate: _format_difference(bootstrap_difference(*errors))}
    if len(set(baseline.tags)) > 1 and baseline.tags == test.tags:
        cells[f"{rate}_{MACRO}"] = _format_difference(bootstrap_difference(*errors, groups=baseline.tags))
    return cells


def difference_by_draws(measure: str, first: ComparedRun, challenger: ComparedRun) -> str:
    """The difference of a run from the first in any measure, by saved draws of the same test; ``-`` without any."""
    if first.test is None or challenger.test is None or first.test.order != challenger.test.order:
        return ABSENT
    if measure not in first.draws or measure not in challenger.draws:
        return ABSENT
    difference = challenger.run.results[measure] - first.run.results[measure]
    draws = challenger.draws[measure] - first.draws[measure]
    return _format_difference(difference_from_draws(difference, draws)) if draws.any() else ABSENT


def _format_difference(difference: Difference) -> str:
    return f"{format_difference(difference.difference, difference.low, difference.high)}, p {difference.p:.3f}"


def paired_bootstrap(
    a: Path | str, b: Path | str, samples: int = 2000, seed: int = 0, measure: str = "wer"
) -> Difference:
    """Compare an error rate of two runs over the test examples they share; below zero, ``a`` is better.

    Args:
        a: a folder with predictions.tsv, of a run or an evaluation.
        b: another one.
        samples: the number of bootstrap samples.
        seed: of the samples.
        measure: ``wer``, wrong words in percent; or ``per``, edits per hundred symbols of the closest references.

    Raises:
        UserError: predictions.tsv is missing or malformed, or the runs share no example.
    """
    tests = [test for folder in (a, b) if (test := read_examples(Path(folder))) is not None]
    first, second = shared_part(tests) if len(tests) == 2 else (Examples((), (), ()),) * 2
    if not first.identities:
        raise UserError(f"{a} and {b} share no test example, so they cannot be compared")
    errors = count_errors(first.predictions, measure), count_errors(second.predictions, measure)
    return bootstrap_difference(*errors, samples=samples, seed=seed)

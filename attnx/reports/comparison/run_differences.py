"""How surely one run is better than another, by the test examples or the draws of a test that both have."""

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


class Compared(NamedTuple):
    """A run, or an evaluation of one, with its test.

    Attributes:
        run: its folder.
        heading: what its column is called.
        test: its test examples; None of a run that was not tested.
        drawn: its measures of other draws of the test.
    """

    run: Run
    heading: str
    test: Examples | None
    drawn: Mapping[str, NDArray[np.float64]]


def differences_by_examples(first: Compared, other: Compared, rate: str) -> dict[str, str]:
    """How surely a run differs from the first in an error rate, by the examples that both were tested on.

    Returns:
        a cell by the rate's name; of examples of several tags of the mean over these, too. Empty of a run that was not
        tested.
    """
    if first.test is None or other.test is None:
        return {}
    one, two = shared_part([first.test, other.test])
    if not one.identities:
        return {rate: "no shared example"}
    errors = count_errors(two.predictions, rate), count_errors(one.predictions, rate)
    found = {rate: _say(bootstrap_difference(*errors))}
    if len(set(one.tags)) > 1 and one.tags == two.tags:
        found[f"{rate}_{MACRO}"] = _say(bootstrap_difference(*errors, groups=one.tags))
    return found


def difference_by_draws(measure: str, first: Compared, other: Compared) -> str:
    """How surely a run differs from the first in any measure, by what was measured of the same draws of the same test.

    There is nothing to tell of what is the same.
    """
    if first.test is None or other.test is None or first.test.order != other.test.order:
        return ABSENT
    if measure not in first.drawn or measure not in other.drawn:
        return ABSENT
    values = other.run.results[measure], first.run.results[measure]
    drawn = other.drawn[measure] - first.drawn[measure]
    return _say(difference_from_draws(values[0] - values[1], drawn)) if drawn.any() else ABSENT


def _say(found: Difference) -> str:
    return f"{format_difference(found.difference, found.low, found.high)}, p {found.p:.3f}"


def paired_bootstrap(
    a: Path | str, b: Path | str, samples: int = 2000, seed: int = 0, measure: str = "wer"
) -> Difference:
    """Compare an error rate of two runs over the test examples they share; below zero, ``a`` is better.

    Args:
        a: a folder with predictions.tsv, of a run or an evaluation.
        b: another one.
        samples: how often examples are drawn again.
        seed: of the draws.
        measure: ``wer``, wrong words a hundred; or ``per``, edits a hundred symbols of the closest references.

    Raises:
        UserError: predictions.tsv is missing or malformed, or the runs share no example.
    """
    tests = [read_examples(Path(folder)) for folder in (a, b)]
    known = [test for test in tests if test is not None]
    first, second = shared_part(known) if len(known) == 2 else (Examples((), (), ()),) * 2
    if not first.identities:
        raise UserError(f"{a} and {b} share no test example, so they cannot be compared")
    errors = count_errors(first.predictions, measure), count_errors(second.predictions, measure)
    return bootstrap_difference(*errors, samples=samples, seed=seed)

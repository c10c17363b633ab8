"""The test examples that runs share, matched by source and references: error rates and differences on them."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.metrics.proportions import Proportion, interval_of_mean
from attnx.reports.metric_names import COUNTED, MACRO, MICRO
from attnx.reports.run.error_tables import count_errors
from attnx.reports.significant_digits import format_difference
from attnx.reports.stats.bootstrap import (
    Difference,
    bootstrap_difference,
    bootstrap_rates,
    difference_from_draws,
    percentile_interval,
)
from attnx.runs.layout import PREDICTIONS, SOURCE_FEATURES, VOCABULARY
from attnx.runs.numeric_examples import numeric_identities
from attnx.runs.predictions import (
    Evaluation,
    PredictionRow,
    has_symbol_predictions,
    is_evaluation,
    read_predictions,
    read_table,
)
from attnx.runs.results_json import Interval
from attnx.runs.run import Run
from attnx.runs.table_fields import read_field

ABSENT: Final = "-"


class Estimate(NamedTuple):
    """A metric, and its 95 % interval if there is one."""

    value: float
    interval: Interval | None = None


class Examples(NamedTuple):
    """A run's test examples in their order: what identifies each without its tag, and its tag or "".

    ``predictions`` is empty if outputs are numbers.
    """

    order: tuple[tuple[Hashable, str], ...] = ()
    predictions: tuple[PredictionRow, ...] = ()

    @property
    def tags(self) -> list[str]:
        """The tag of each."""
        return [tag for _, tag in self.order]

    @property
    def counts(self) -> Counter[tuple[Hashable, str]]:
        """Equal for the same examples in any order."""
        return Counter(self.order)

    def select(self, indices: Sequence[int]) -> Examples:
        """The examples at some indices, in their order."""
        predictions = tuple(self.predictions[index] for index in indices) if self.predictions else ()
        return Examples(tuple(self.order[index] for index in indices), predictions)


NO_EXAMPLES = Examples()


def read_test_examples(folder: Path) -> Examples:
    """Read the test examples of a run or an evaluation; none without a test.

    An example is identified by its source and references. Text references identify it alone, since tokenizers split
    the same text differently. A source matrix is identified by its name; matrices without names, such as points, match
    only if the complete tests are equal.

    Raises:
        UserError: the predictions are malformed.
    """
    if not (folder / PREDICTIONS).is_file():
        return NO_EXAMPLES
    if not has_symbol_predictions(folder):
        columns, rows = read_table(folder / PREDICTIONS)
        if not {"source", "reference"} <= set(columns):
            raise UserError(f"{folder / PREDICTIONS}:1: has neither a column references nor source and reference")
        identities = numeric_identities(folder, rows)
        return Examples(tuple((key, read_field(row.get("tag", ""))) for key, row in zip(identities, rows, strict=True)))
    predictions = read_predictions(folder)
    keys: list[Hashable] = [_identity(row) for row in predictions]
    run = Evaluation(folder).evaluated_run if is_evaluation(folder) else Run(folder)
    if (run.path / VOCABULARY / SOURCE_FEATURES).is_file() and not all(row.name for row in predictions):
        test = hash(tuple(keys))
        keys = [(test, key) for key in keys]
    return Examples(tuple((key, row.tag) for key, row in zip(keys, predictions, strict=True)), tuple(predictions))


def _identity(row: PredictionRow) -> Hashable:
    """Text references, or the source without its tag and the references; letters are joined and normalized to NFC."""
    if row.texts:
        return frozenset(row.texts)
    source = row.untagged_source
    is_letters = all(len(symbol) == 1 for symbol in source)
    text = unicodedata.normalize("NFC", "".join(source)) if is_letters else source
    return row.name or text, frozenset(row.references)


def shared_part(tests: Sequence[Examples]) -> list[Examples]:
    """Each test reduced to the examples that all of them have, in the order of the first.

    Tags distinguish examples if each test has several, or all tests have one in common. Otherwise an example that a
    test has with several tags is left out, since the matching one of another test is not known.
    """
    tags = [set(test.tags) for test in tests]
    by_tag = all(len(test_tags) > 1 for test_tags in tags) or bool(set.intersection(*tags))
    indices = [_index_by_key(test, by_tag) for test in tests]
    keys = [key for key in indices[0] if all(key in index for index in indices)]
    return [test.select([index[key] for key in keys]) for test, index in zip(tests, indices, strict=True)]


def _index_by_key(test: Examples, by_tag: bool) -> dict[Hashable, int]:
    """The index of each example by its key; equal examples are numbered."""
    tags: dict[Hashable, set[str]] = defaultdict(set)
    for identity, tag in test.order:
        tags[identity].add(tag)
    counts: Counter[Hashable] = Counter()
    index_by_key: dict[Hashable, int] = {}
    for index, (identity, tag) in enumerate(test.order):
        if by_tag or len(tags[identity]) == 1:
            key = (identity, tag) if by_tag else identity
            counts[key] += 1
            index_by_key[key, counts[key]] = index
    return index_by_key


def error_rates(test: Examples, metric: str) -> dict[str, Estimate]:
    """An error rate by its name in the results, or with several tags ``per_macro``, ``per_micro``, ``per_fre`` ..."""
    errors, tags = count_errors(test.predictions, metric), np.array(test.tags)
    names = sorted(set(test.tags))
    if not names:
        return {}
    if len(names) == 1:
        return {metric: _rate([errors], metric)}
    by_tag = {tag: errors[tags == tag] for tag in names}
    return {
        f"{metric}_{MACRO}": _rate([*by_tag.values()], metric),
        f"{metric}_{MICRO}": _rate([errors], metric),
        **{f"{metric}_{tag}": _rate([part], metric) for tag, part in by_tag.items()},
    }


def _rate(groups: Sequence[NDArray[np.int64]], metric: str) -> Estimate:
    """The mean of the groups' rates; its interval is exact for sequences, which are right or wrong."""
    names = [str(index) for index, errors in enumerate(groups) for _ in errors]
    rates, resampled = bootstrap_rates(np.concatenate(groups), groups=names)
    if COUNTED[metric] == "sequences":
        low, high = interval_of_mean([Proportion(*errors.sum(0).tolist()) for errors in groups])
        return Estimate(float(rates[0]), Interval(100 * low, 100 * high))
    low, high = percentile_interval(resampled)
    return Estimate(float(rates[0]), None if low == high else Interval(low, high))


class ComparedRun(NamedTuple):
    """A run or evaluation with its test, what all share of it, and its metrics on bootstrap samples (``draws``)."""

    run: Run
    heading: str
    test: Examples
    draws: Mapping[str, NDArray[np.float64]]
    shared: Examples = NO_EXAMPLES


def differences_by_examples(first: ComparedRun, challenger: ComparedRun, rate: str) -> dict[str, str]:
    """The difference of a run from the first in an error rate, by the test examples that both share.

    Also that of the mean over tags if there are several; empty without a test.
    """
    if not first.test.order or not challenger.test.order:
        return {}
    baseline, test = shared_part([first.test, challenger.test])
    if not baseline.order:
        return {rate: "no shared example"}
    errors, baseline_errors = count_errors(test.predictions, rate), count_errors(baseline.predictions, rate)
    cells = {rate: _format_difference(bootstrap_difference(errors, baseline_errors))}
    if len(set(baseline.tags)) > 1 and baseline.tags == test.tags:
        difference = bootstrap_difference(errors, baseline_errors, groups=baseline.tags)
        cells[f"{rate}_{MACRO}"] = _format_difference(difference)
    return cells


def difference_by_draws(metric: str, first: ComparedRun, challenger: ComparedRun) -> str:
    """The difference of a run from the first in any metric, by saved draws of the same test; ``-`` without any."""
    if not first.test.order or first.test.order != challenger.test.order:
        return ABSENT
    if metric not in first.draws or metric not in challenger.draws:
        return ABSENT
    values = challenger.run.results.get(metric), first.run.results.get(metric)
    if values[0] is None or values[1] is None:
        return ABSENT
    difference = values[0] - values[1]
    draws = challenger.draws[metric] - first.draws[metric]
    return _format_difference(difference_from_draws(difference, draws)) if draws.any() else ABSENT


def _format_difference(difference: Difference) -> str:
    return f"{format_difference(difference.difference, difference.low, difference.high)}, p {difference.p:.3f}"

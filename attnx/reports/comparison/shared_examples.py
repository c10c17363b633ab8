"""The test examples of a run, and those that several runs share, matched by source and references."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.data.examples import Symbols
from attnx.errors import UserError
from attnx.files.bounded_arrays import read_arrays
from attnx.metrics.nearest_reference import nearest_reference
from attnx.metrics.proportions import Proportion, interval_of_mean
from attnx.reports.measure_names import COUNTED, MACRO, MICRO
from attnx.reports.stats.bootstrap import bootstrap_rates, percentile_interval
from attnx.runs.layout import MATRICES, PREDICTIONS, SOURCE_FEATURES, VOCABULARY
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

Counts = NDArray[np.int64]


class Rate(NamedTuple):
    """An error rate in percent, and its 95 % interval if there is one."""

    percent: float
    interval: Interval | None


class Examples(NamedTuple):
    """A run's test examples and predictions, in their order.

    Attributes:
        identities: of each example without its tag; equal for equal examples of any run.
        tags: the language of each; "" without.
        predictions: of each; empty if outputs are numbers.
    """

    identities: tuple[Hashable, ...]
    tags: tuple[str, ...]
    predictions: tuple[PredictionRow, ...]

    @property
    def order(self) -> list[tuple[Hashable, str]]:
        """Identity and tag of each; equal for the same examples in the same order."""
        return list(zip(self.identities, self.tags, strict=True))

    @property
    def counts(self) -> Counter[tuple[Hashable, str]]:
        """Equal for the same examples in any order."""
        return Counter(self.order)

    def select(self, indices: Sequence[int]) -> Examples:
        """The examples at some indices, in their order."""
        predictions = tuple(self.predictions[index] for index in indices) if self.predictions else ()
        return Examples(
            tuple(self.identities[index] for index in indices),
            tuple(self.tags[index] for index in indices),
            predictions,
        )


def read_examples(folder: Path) -> Examples | None:
    """Read the test examples of a run or an evaluation; None without a test.

    An example is identified by its source and references. Text references identify it alone, since tokenizers split
    the same text differently. A source matrix is identified by its name; matrices without names, such as points, match
    only if the complete tests are equal.

    Raises:
        UserError: the predictions are malformed.
    """
    if not (folder / PREDICTIONS).is_file():
        return None
    if not has_symbol_predictions(folder):
        columns, rows = read_table(folder / PREDICTIONS)
        if not {"source", "reference"} <= set(columns):
            raise UserError(f"{folder / PREDICTIONS}:1: has neither a column references nor source and reference")
        arrays = read_arrays(folder / MATRICES, [row["reference"] for row in rows])
        identities = [(row.get("name") or row["source"], _digest(arrays[row["reference"]])) for row in rows]
        return Examples(tuple(identities), tuple(read_field(row.get("tag", "")) for row in rows), ())
    predictions = read_predictions(folder)
    keys: list[Hashable] = [_identity(row) for row in predictions]
    run = Evaluation(folder).evaluated_run if is_evaluation(folder) else Run(folder)
    if (run.path / VOCABULARY / SOURCE_FEATURES).is_file() and not all(row.name for row in predictions):
        test = hash(tuple(keys))
        keys = [(test, key) for key in keys]
    return Examples(tuple(keys), tuple(row.tag for row in predictions), tuple(predictions))


def _digest(reference: NDArray[np.float64]) -> bytes:
    return hashlib.sha256(repr(reference.shape).encode() + reference.tobytes()).digest()


def _identity(row: PredictionRow) -> Hashable:
    if row.texts:
        return frozenset(row.texts)
    return row.name or _source(row), frozenset(row.references)


def _source(row: PredictionRow) -> Symbols | str:
    """The source without its tag; letters are joined and normalized to NFC."""
    source = row.untagged_source
    is_letters = all(len(symbol) == 1 for symbol in source)
    return unicodedata.normalize("NFC", "".join(source)) if is_letters else source


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


def count_errors(predictions: Sequence[PredictionRow], measure: str) -> Counts:
    """(n, 2) the errors of each example, and the number they are divided by, for the rate ``per`` or ``wer``.

    Rates of symbols count edits and the symbols of the closest reference; rates of sequences 1 if there is an edit,
    and 1.
    """
    if COUNTED[measure] == "sequences":
        counts = [(int(row.edits > 0), 1) for row in predictions]
    else:
        counts = [(row.edits, len(nearest_reference(row.output, row.references)[1])) for row in predictions]
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def error_rates(test: Examples, measure: str) -> dict[str, Rate]:
    """An error rate with its interval; with several tags also the mean over tags, and each tag's rate.

    Returns:
        by name in the results: ``per``, or ``per_macro``, ``per_micro``, ``per_fre`` ...
    """
    errors, tags = count_errors(test.predictions, measure), np.array(test.tags)
    names = sorted(set(test.tags))
    if len(names) == 1:
        return {measure: _rate([errors], measure)}
    by_tag = {tag: errors[tags == tag] for tag in names}
    return {
        f"{measure}_{MACRO}": _rate([*by_tag.values()], measure),
        f"{measure}_{MICRO}": _rate([errors], measure),
        **{f"{measure}_{tag}": _rate([part], measure) for tag, part in by_tag.items()},
    }


def _rate(groups: Sequence[Counts], measure: str) -> Rate:
    """The mean of the groups' rates; its interval is exact for sequences, which are right or wrong."""
    names = [str(index) for index, errors in enumerate(groups) for _ in errors]
    rates, resampled = bootstrap_rates(np.concatenate(groups), groups=names)
    if COUNTED[measure] == "sequences":
        low, high = interval_of_mean([Proportion(*errors.sum(0).tolist()) for errors in groups])
        return Rate(float(rates[0]), Interval(100 * low, 100 * high))
    low, high = percentile_interval(resampled)
    return Rate(float(rates[0]), None if low == high else Interval(low, high))

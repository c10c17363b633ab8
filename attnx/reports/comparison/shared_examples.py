"""The test examples of a run, and which of them several runs share: examples match by what they are."""

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
from attnx.runs.layout import MATRICES, PREDICTIONS, SOURCE_FEATURES, VOCABULARY, read_field
from attnx.runs.predictions import Prediction, read_predictions, read_table, run_folder, wrote_symbols
from attnx.runs.run import Interval

Counts = NDArray[np.int64]


class Rate(NamedTuple):
    """An error rate in percent, and its 95 % interval if there is one."""

    percent: float
    interval: Interval | None


class Examples(NamedTuple):
    """What a run was tested on, and what it wrote, in the order of its predictions.

    Attributes:
        identities: what each example is, apart from its tag; equal for equal examples of any run.
        tags: the language of each; "" where there is none.
        predictions: of each; empty where numbers were written.
    """

    identities: tuple[Hashable, ...]
    tags: tuple[str, ...]
    predictions: tuple[Prediction, ...]

    @property
    def order(self) -> list[tuple[Hashable, str]]:
        """Equal for the same examples in the same order."""
        return list(zip(self.identities, self.tags, strict=True))

    @property
    def counts(self) -> Counter[tuple[Hashable, str]]:
        """Equal for the same examples in any order."""
        return Counter(self.order)

    def at(self, places: Sequence[int]) -> Examples:
        """Some of the examples, in the order that is asked for."""
        predictions = tuple(self.predictions[place] for place in places) if self.predictions else ()
        return Examples(
            tuple(self.identities[place] for place in places), tuple(self.tags[place] for place in places), predictions
        )


def read_examples(folder: Path) -> Examples | None:
    """Read the test examples of a run, or of an evaluation; None of a run that was not tested.

    An example is its source and its references. Where references were written as texts these alone stand for it, since
    tokenizers cut the same text in many ways; where sources are matrices their names do, since their symbols only count
    steps. Matrices without a name, as points are, match as a whole test or not at all.

    Raises:
        UserError: the predictions are malformed.
    """
    if not (folder / PREDICTIONS).is_file():
        return None
    if not wrote_symbols(folder):
        columns, rows = read_table(folder / PREDICTIONS)
        if not {"source", "reference"} <= set(columns):
            raise UserError(f"{folder / PREDICTIONS}:1: neither references nor the names of matrices of them")
        arrays = read_arrays(folder / MATRICES, [row["reference"] for row in rows])
        identities = [(row.get("name") or row["source"], _digest(arrays[row["reference"]])) for row in rows]
        return Examples(tuple(identities), tuple(read_field(row.get("tag", "")) for row in rows), ())
    predictions = read_predictions(folder)
    found: list[Hashable] = [_identity(one) for one in predictions]
    if (run_folder(folder) / VOCABULARY / SOURCE_FEATURES).is_file() and not all(one.name for one in predictions):
        whole = hash(tuple(found))
        found = [(whole, one) for one in found]
    return Examples(tuple(found), tuple(one.tag for one in predictions), tuple(predictions))


def _digest(reference: NDArray[np.float64]) -> bytes:
    return hashlib.sha256(repr(reference.shape).encode() + reference.tobytes()).digest()


def _identity(one: Prediction) -> Hashable:
    if one.texts:
        return frozenset(one.texts)
    return one.name or _source(one), frozenset(one.references)


def _source(one: Prediction) -> Symbols | str:
    """The source without its language; letters in whichever Unicode form are a text."""
    source = one.untagged_source
    is_letters = all(len(symbol) == 1 for symbol in source)
    return unicodedata.normalize("NFC", "".join(source)) if is_letters else source


def shared_part(tests: Sequence[Examples]) -> list[Examples]:
    """Each test cut to the examples that all of them hold, in the order of the first.

    A tag tells examples apart where each test has several, or where all tests have one in common. Elsewhere an example
    that a test holds under several tags is left out: nothing says which of them another test holds.
    """
    tags = [set(test.tags) for test in tests]
    by_tag = all(len(some) > 1 for some in tags) or bool(set.intersection(*tags))
    places = [_places(test, by_tag) for test in tests]
    keys = [key for key in places[0] if all(key in of for of in places)]
    return [test.at([of[key] for key in keys]) for test, of in zip(tests, places, strict=True)]


def _places(test: Examples, by_tag: bool) -> dict[Hashable, int]:
    """The place of each example; equal ones are numbered."""
    tags: dict[Hashable, set[str]] = defaultdict(set)
    for identity, tag in test.order:
        tags[identity].add(tag)
    times: Counter[Hashable] = Counter()
    places: dict[Hashable, int] = {}
    for place, (identity, tag) in enumerate(test.order):
        if by_tag or len(tags[identity]) == 1:
            key = (identity, tag) if by_tag else identity
            times[key] += 1
            places[key, times[key]] = place
    return places


def errors_of(predictions: Sequence[Prediction], measure: str) -> Counts:
    """(n, 2) what each example adds to an error rate, and to what it is out of, by the rate's name: ``per``, ``wer``.

    Symbols count edits and the symbols of the nearest reference; sequences count whether there is an edit, and 1.
    """
    if COUNTED[measure] == "sequences":
        counts = [(int(one.edits > 0), 1) for one in predictions]
    else:
        counts = [(one.edits, len(nearest_reference(one.output, one.references)[1])) for one in predictions]
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def error_rates(test: Examples, measure: str) -> dict[str, Rate]:
    """An error rate of examples, with its interval; of several tags the mean over them, that of all, and each tag's.

    Returns:
        by its name in the results: ``per``, or ``per_macro``, ``per_micro``, ``per_fre`` ...
    """
    errors, tags = errors_of(test.predictions, measure), np.array(test.tags)
    known = sorted(set(test.tags))
    if len(known) == 1:
        return {measure: _rate([errors], measure)}
    each = [errors[tags == tag] for tag in known]
    return {
        f"{measure}_{MACRO}": _rate(each, measure),
        f"{measure}_{MICRO}": _rate([errors], measure),
        **{f"{measure}_{tag}": _rate([some], measure) for tag, some in zip(known, each, strict=True)},
    }


def _rate(groups: Sequence[Counts], measure: str) -> Rate:
    """The mean of the groups' rates; its interval is exact for sequences, which are right or wrong."""
    names = [str(number) for number, errors in enumerate(groups) for _ in errors]
    found, drawn = bootstrap_rates(np.concatenate(groups), groups=names)
    if COUNTED[measure] == "sequences":
        low, high = interval_of_mean([Proportion(*errors.sum(0).tolist()) for errors in groups])
        return Rate(float(found[0]), Interval(100 * low, 100 * high))
    low, high = percentile_interval(drawn)
    return Rate(float(found[0]), None if low == high else Interval(low, high))

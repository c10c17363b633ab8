"""The examples that runs were tested on, and the errors in each: two runs are compared only on the same examples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.data.special_tokens import tag_symbol
from attnx.errors import UserError
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.metric_names import COUNTED, MACRO, MICRO, metric_base
from attnx.reports.stats.bootstrap import SAMPLES, bootstrap_rates, read_draws
from attnx.runs.layout import PREDICTIONS
from attnx.runs.numeric_examples import numeric_identities
from attnx.runs.predictions import read_table
from attnx.runs.table_fields import read_field, read_symbols

Numbers = NDArray[np.float64]
DIGEST_LENGTH = 12  # hexadecimal digits
# The columns that identify an example of symbols; what was predicted does not. Text references do it without symbols,
# since tokenizers split the same text differently.
KEY_COLUMNS, TEXT_KEY_COLUMNS = ("source", "references", "tag", "name"), ("texts", "tag", "name")


class LengthErrors(NamedTuple):
    """Counts of the test examples of a source length: all, the wrong ones, their edits, and reference symbols."""

    examples: int
    wrong: int
    edits: int
    symbols: int


class TestedExamples(NamedTuple):
    """The examples of a run's test, sorted by what identifies them.

    Attributes:
        digest: equal for equal examples, in whatever order, on every machine.
        lengths: (n,) source symbols of each, a language's symbol aside.
        errors: (n, 2) edits between each output and its closest reference, and its symbols; None if they are numbers.
        tags: (n,) the language of each; "" without.
        order: equal for equal examples in the same order, for which ``resampled`` has the same samples.
        resampled: metrics of bootstrap samples.
    """

    digest: str
    lengths: NDArray[np.int64]
    errors: Numbers | None
    tags: NDArray[np.str_]
    order: str
    resampled: Mapping[str, Numbers]


def read_tested(folder: Path) -> TestedExamples | None:
    """Read the test examples of a run; None if there are none, or predictions.tsv cannot be read."""
    try:
        columns, rows = read_table(folder / PREDICTIONS)
        keys = _identities(folder, columns, rows)
        order = sorted(range(len(rows)), key=keys.__getitem__)
        rows = [rows[index] for index in order]
        tags = np.array([read_field(row.get("tag", "")) for row in rows])
        counts = [(float(row["edits"]), _reference_symbols(row)) for row in rows] if "edits" in columns else None
        errors = None if counts is None else np.array(counts)
        lengths = np.array([_source_length(row) for row in rows])
        return TestedExamples(_digest(sorted(keys)), lengths, errors, tags, _digest(keys), read_draws(folder))
    except (OSError, UserError, ValueError, KeyError):
        return None


def count_by_length(tested: TestedExamples) -> dict[int, LengthErrors]:
    """The errors by source length, shortest first; empty if they are numbers."""
    if tested.errors is None:
        return {}
    counts = {}
    for length in np.unique(tested.lengths).tolist():
        edits, symbols = tested.errors[tested.lengths == length].astype(np.int64).T
        counts[length] = LengthErrors(len(edits), int((edits > 0).sum()), int(edits.sum()), int(symbols.sum()))
    return counts


def _identities(folder: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> list[str]:
    """What identifies each example, as text."""
    if "reference" in columns:  # to a matrix of numbers
        identities = zip(numeric_identities(folder, rows), rows, strict=True)
        return ["\t".join([*identity, row.get("tag", "")]) for identity, row in identities]
    names = TEXT_KEY_COLUMNS if "texts" in columns else KEY_COLUMNS
    return ["\t".join(row[name] for name in names if name in columns) for row in rows]


def _digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:DIGEST_LENGTH]


def _source_length(row: Mapping[str, str]) -> int:
    symbols = row.get("source", "").split()
    return len(symbols) - (symbols[:1] == [tag_symbol(read_field(row.get("tag", "")))])


def _reference_symbols(row: Mapping[str, str]) -> int:
    """The number of symbols of the reference closest to the output."""
    references = row["references"].split(" | ")
    if len(references) == 1:
        return len(row["references"].split())
    return len(nearest_reference(read_symbols(row["prediction"]), tuple(map(read_symbols, references)))[1])


def resample_rates(
    tests: Sequence[TestedExamples], metric: str, samples: int = SAMPLES
) -> tuple[Numbers, Numbers] | None:
    """An error rate of runs in percent, and those on the same bootstrap samples of their equal examples.

    ``metric`` may be that of a tag: ``per``, ``wer_macro``, ``per_fra``. The rates are (runs,) and (samples, runs);
    None for a metric that is not counted from predictions.
    """
    base, tags = metric_base(metric, COUNTED), tests[0].tags
    group = metric.removeprefix(base).removeprefix("_")
    mask = tags == group if group not in ("", MACRO, MICRO) else np.full(len(tags), True)
    if not base or tests[0].errors is None or not mask.any():
        return None
    groups = tags[mask].tolist() if group == MACRO else None
    return bootstrap_rates(*(_errors(test, base)[mask] for test in tests), groups=groups, samples=samples)


def _errors(tested: TestedExamples, base: str) -> Numbers:
    """(n, 2) the errors of each example, and the number they are divided by."""
    assert tested.errors is not None, "only symbols have error rates"
    if COUNTED[base] == "symbols":
        return tested.errors
    return np.stack([np.minimum(tested.errors[:, 0], 1), np.ones(len(tested.errors))], axis=1)

"""The examples that runs were tested on, and the errors in each: two runs are compared only on the same examples."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.measure_names import COUNTED, MACRO, MICRO, measure_base
from attnx.reports.stats.bootstrap import bootstrap_rates
from attnx.reports.stats.bootstrap_file import read_draws
from attnx.runs.layout import PREDICTIONS
from attnx.runs.predictions import read_table
from attnx.runs.table_fields import read_field, read_symbols

Numbers = NDArray[np.float64]
# The columns that identify an example; what was predicted does not.
KEY_COLUMNS = ("source", "references", "reference_steps", "tag", "name")


class TestedExamples(NamedTuple):
    """The examples of a run's test, sorted by what identifies them.

    Attributes:
        key: equal for equal examples.
        edits: (n,) between each output and its closest reference; None if outputs are numbers.
        symbols: (n,) of that reference.
        tags: (n,) the language of each; "" without.
        order: equal for equal examples in the same order.
        resampled: measures of bootstrap samples, the same samples for runs of equal ``order``.
    """

    key: str
    edits: Numbers | None
    symbols: Numbers
    tags: NDArray[np.str_]
    order: str
    resampled: Mapping[str, Numbers]


def read_tested(folder: Path) -> TestedExamples | None:
    """Read the test examples of a run; None if there are none, or predictions.tsv cannot be read."""
    try:
        columns, rows = read_table(folder / PREDICTIONS)
        keys = ["\t".join(row[name] for name in KEY_COLUMNS if name in columns) for row in rows]
        order = sorted(range(len(rows)), key=keys.__getitem__)
        rows = [rows[index] for index in order]
        tags = np.array([read_field(row.get("tag", "")) for row in rows])
        edits = np.array([float(row["edits"]) for row in rows]) if "edits" in columns else None
        symbols = np.ones(len(rows)) if edits is None else np.array(list(map(_reference_symbols, rows)), float)
        return TestedExamples(_hash(sorted(keys)), edits, symbols, tags, _hash(keys), read_draws(folder))
    except (OSError, UserError, ValueError, KeyError):
        return None


def _hash(keys: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]


def _reference_symbols(row: Mapping[str, str]) -> int:
    """The number of symbols of the reference closest to the output."""
    references = row["references"].split(" | ")
    if len(references) == 1:
        return len(row["references"].split())
    return len(nearest_reference(read_symbols(row["prediction"]), tuple(map(read_symbols, references)))[1])


def rate(tested: TestedExamples, measure: str) -> float | None:
    """An error rate in percent, by its name: ``per``, ``wer_macro``, ``per_fra``; None for other measures."""
    base, group = _split_measure(measure)
    mask = _group_mask(tested.tags, group)
    if not base or tested.edits is None or not mask.any():
        return None
    rates, _ = bootstrap_rates(_errors(tested, base)[mask], groups=_groups(tested.tags[mask], group), samples=1)
    return float(rates[0])


def resampled_rates(tests: Sequence[TestedExamples], measure: str) -> Numbers:
    """(samples, runs) error rates on bootstrap samples of the test examples, the same samples for all runs."""
    base, group = _split_measure(measure)
    tags = tests[0].tags
    mask = _group_mask(tags, group)
    _, rates = bootstrap_rates(*(_errors(test, base)[mask] for test in tests), groups=_groups(tags[mask], group))
    return rates


def _split_measure(measure: str) -> tuple[str, str]:
    """The base error rate of a measure, and the tag it is of: ``per_fra`` -> ``per``, ``fra``."""
    base = measure_base(measure, COUNTED)
    return base, measure.removeprefix(base).removeprefix("_")


def _errors(tested: TestedExamples, base: str) -> Numbers:
    """(n, 2) the errors of each example, and the number they are divided by."""
    assert tested.edits is not None, "only symbols have error rates"
    if COUNTED[base] == "symbols":
        return np.stack([tested.edits, tested.symbols], axis=1)
    return np.stack([np.minimum(tested.edits, 1), np.ones_like(tested.edits)], axis=1)


def _group_mask(tags: NDArray[np.str_], group: str) -> NDArray[np.bool_]:
    """(n,) the examples of a rate: those of one tag, or all."""
    return np.ones(len(tags), dtype=np.bool_) if group in ("", MACRO, MICRO) else tags == group


def _groups(tags: NDArray[np.str_], group: str) -> list[str] | None:
    """The groups whose rates are averaged; None for one rate over all."""
    return tags.tolist() if group == MACRO else None

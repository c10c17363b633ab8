"""What runs were tested on, and where each was wrong: two runs are compared only on the same examples."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_files import read_text
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.measure_names import COUNTED, MACRO, MICRO, measure_base
from attnx.reports.stats.bootstrap import bootstrap_rates
from attnx.reports.stats.bootstrap_file import read_draws
from attnx.runs.layout import PREDICTIONS, read_field, read_symbols

Numbers = NDArray[np.float64]
# What tells an example apart from others; what was predicted does not.
ASKED = ("source", "references", "reference_steps", "tag", "name")


class TestedExamples(NamedTuple):
    """A run's test, its examples in an order that depends on them alone.

    Attributes:
        key: equal for equal examples.
        edits: (n,) of each output to the nearest_reference reference; None if numbers were written.
        symbols: (n,) of that reference.
        tags: (n,) the language of each; "" without.
        order: equal for equal examples in the same order.
        drawn: measures of other draws of the examples, the same for runs whose ``order`` is the same.
    """

    key: str
    edits: Numbers | None
    symbols: Numbers
    tags: NDArray[np.str_]
    order: str
    drawn: Mapping[str, Numbers]


def read_tested(folder: Path) -> TestedExamples | None:
    """Read predictions.tsv; None if there is none, or it cannot be read."""
    try:
        head, *lines = read_text(folder / PREDICTIONS).rstrip("\n").split("\n")
        columns = head.split("\t")
        rows = [line.split("\t") for line in lines]
        asked = [columns.index(name) for name in ASKED if name in columns]
        keys = ["\t".join([row[place] for place in asked]) for row in rows]
        order = sorted(range(len(rows)), key=keys.__getitem__)
        edits, symbols, tags = _wrong([rows[place] for place in order], columns)
        return TestedExamples(_key(sorted(keys)), edits, symbols, tags, order=_key(keys), drawn=read_draws(folder))
    except (OSError, UserError, ValueError, IndexError):
        return None


def _wrong(rows: list[list[str]], columns: list[str]) -> tuple[Numbers | None, Numbers, NDArray[np.str_]]:
    """Where each example was wrong: edits, symbols and tags."""
    tag = columns.index("tag") if "tag" in columns else None
    tags = np.array([read_field(row[tag]) for row in rows] if tag is not None else [""] * len(rows))
    if "edits" not in columns:
        return None, np.ones(len(rows)), tags
    output, references, edits = (columns.index(name) for name in ("prediction", "references", "edits"))
    symbols = [_symbols(row[output], row[references]) for row in rows]
    return np.array([float(row[edits]) for row in rows]), np.array(symbols, float), tags


def _key(keys: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]


def _symbols(output: str, references: str) -> int:
    """How many symbols the reference has that the output is nearest_reference to."""
    several = references.split(" | ")
    if len(several) == 1:
        return len(references.split())
    return len(nearest_reference(read_symbols(output), tuple(map(read_symbols, several)))[1])


def rate(tested: TestedExamples, measure: str) -> float | None:
    """An error rate of a test in percent, by its name: ``per``, ``wer_macro``, ``per_fra``; None if it is none."""
    base, group = _split(measure)
    rows = _rows(tested.tags, group)
    if not base or tested.edits is None or not rows.any():
        return None
    rates, _ = bootstrap_rates(_errors(tested, base)[rows], groups=_groups(tested.tags[rows], group), samples=1)
    return float(rates[0])


def resampled(tests: Sequence[TestedExamples], measure: str) -> Numbers:
    """(samples, runs) the rate of each run, on test examples drawn again with replacement, the same for all runs."""
    base, group = _split(measure)
    tags = tests[0].tags
    rows = _rows(tags, group)
    _, drawn = bootstrap_rates(*(_errors(test, base)[rows] for test in tests), groups=_groups(tags[rows], group))
    return drawn


def _split(measure: str) -> tuple[str, str]:
    """The rate that a measure is, and of which tags: ``per_fra`` is the phone error rate of one."""
    base = measure_base(measure, COUNTED)
    return base, measure.removeprefix(base).removeprefix("_")


def _errors(tested: TestedExamples, base: str) -> Numbers:
    """(n, 2) the errors of each example, and what they are out of."""
    assert tested.edits is not None, "asked of symbols alone"
    if COUNTED[base] == "symbols":
        return np.stack([tested.edits, tested.symbols], axis=1)
    return np.stack([np.minimum(tested.edits, 1), np.ones_like(tested.edits)], axis=1)


def _rows(tags: NDArray[np.str_], group: str) -> NDArray[np.bool_]:
    """Which examples a rate is of: those of one tag, or all."""
    return np.ones(len(tags), dtype=np.bool_) if group in ("", MACRO, MICRO) else tags == group


def _groups(tags: NDArray[np.str_], group: str) -> list[str] | None:
    """Of what a rate is the mean: of the tags' rates, or of none."""
    return tags.tolist() if group == MACRO else None

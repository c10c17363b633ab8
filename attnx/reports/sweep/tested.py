"""What runs were tested on, and where each was wrong: two runs are compared only on the same examples."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.bounded_files import read_text
from attnx.errors import UserError
from attnx.metrics.closest import closest
from attnx.reports.draws import read_draws
from attnx.run_format import PREDICTIONS, read_field, read_symbols

Numbers = NDArray[np.float64]
# What tells an example apart from others; what was predicted does not.
ASKED = ("source", "references", "reference_steps", "tag", "name")
RATES = {"wer": "sequences", "per": "symbols", "sequence_error_rate": "sequences", "symbol_error_rate": "symbols"}
MACRO, MICRO = "macro", "micro"
SAMPLES, AT_ONCE = 2000, 250


class Tested(NamedTuple):
    """A run's test, its examples in an order that depends on them alone.

    Attributes:
        key: equal for equal examples.
        edits: (n,) of each output to the closest reference; None if numbers were written.
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


def read_tested(folder: Path) -> Tested | None:
    """Read predictions.tsv; None if there is none, or it cannot be read."""
    try:
        head, *lines = read_text(folder / PREDICTIONS).rstrip("\n").split("\n")
        columns = head.split("\t")
        rows = [line.split("\t") for line in lines]
        asked = [columns.index(name) for name in ASKED if name in columns]
        keys = ["\t".join([row[place] for place in asked]) for row in rows]
        order = sorted(range(len(rows)), key=keys.__getitem__)
        edits, symbols, tags = _wrong([rows[place] for place in order], columns)
        return Tested(_key(sorted(keys)), edits, symbols, tags, order=_key(keys), drawn=read_draws(folder))
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
    """How many symbols the reference has that the output is closest to."""
    several = references.split(" | ")
    if len(several) == 1:
        return len(references.split())
    return len(closest(read_symbols(output), tuple(map(read_symbols, several)))[1])


def rate(tested: Tested, measure: str) -> float | None:
    """An error rate of a test in percent, by its name: ``per``, ``wer_macro``, ``per_fra``; None if it is none."""
    base, which = _parted(measure)
    groups = _groups(tested.tags, which)
    if not base or tested.edits is None or not groups:
        return None
    errors, of = _judged(tested, base)
    return float(_rates(np.ones((1, len(of))), errors, of, groups)[0])


def resampled(tests: Sequence[Tested], measure: str, seed: int = 0) -> Numbers:
    """(samples, runs) the rate of each run, on test examples drawn again with replacement, the same for all runs.

    So the differences between runs are those of a paired bootstrap (Koehn 2004, https://aclanthology.org/W04-3250).
    """
    base, which = _parted(measure)
    errors, of = (np.stack(each, axis=1) for each in zip(*(_judged(test, base) for test in tests), strict=True))
    of = of[:, :1] if (of == of[:, :1]).all() else of
    groups, random, examples = _groups(tests[0].tags, which), np.random.default_rng(seed), len(of)
    found = []
    for _ in range(SAMPLES // AT_ONCE):
        drawn = random.integers(0, examples, (AT_ONCE, examples)) + examples * np.arange(AT_ONCE)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=AT_ONCE * examples).reshape(AT_ONCE, examples).astype(float)
        found.append(_rates(weights, errors, of, groups))
    return np.concatenate(found)


def _parted(measure: str) -> tuple[str, str]:
    """The rate that a measure is, and of which tags: ``per_fra`` is the phone error rate of one."""
    base = next((name for name in RATES if measure == name or measure.startswith(f"{name}_")), "")
    return base, measure.removeprefix(base).removeprefix("_")


def _judged(tested: Tested, base: str) -> tuple[Numbers, Numbers]:
    """The errors of each example, and what they are out of."""
    assert tested.edits is not None, "asked of symbols alone"
    if RATES[base] == "symbols":
        return tested.edits, tested.symbols
    return np.minimum(tested.edits, 1), np.ones_like(tested.edits)


def _rates(weights: Numbers, errors: Numbers, of: Numbers, groups: Sequence[NDArray[np.bool_]]) -> Numbers:
    """The rate, by how often each example counts: (k, n) and (n, ...) -> (k, ...); the mean over groups."""
    rates = [100 * (weights[:, one] @ errors[one]) / np.maximum(weights[:, one] @ of[one], 1) for one in groups]
    return np.asarray(np.mean(rates, axis=0))


def _groups(tags: NDArray[np.str_], which: str) -> list[NDArray[np.bool_]]:
    if which in ("", MICRO):
        return [np.ones(len(tags), dtype=np.bool_)]
    return [tags == tag for tag in np.unique(tags) if which in (MACRO, tag)]

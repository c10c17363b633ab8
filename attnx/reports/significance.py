"""How surely one run is better than another: paired bootstrap over the words that both were tested on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from attnx.errors import UserError
from attnx.metrics.closest import closest
from attnx.reports.folder import Prediction, read_predictions

Measure = Literal["wer", "per"]


class Difference(NamedTuple):
    """A measure of the first run minus the second's (of a rate in points), its 95 % interval, and a two-sided p."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    a: Path | str, b: Path | str, samples: int = 2000, seed: int = 0, measure: Measure = "wer"
) -> Difference:
    """Compare an error rate of two runs over the words they share; below zero, ``a`` is better.

    Words are drawn again with replacement, in pairs (Koehn 2004, https://aclanthology.org/W04-3250). A word counts as
    shared when both runs have it with the same references. Words that add the same to all four sums (errors, and what
    they are divided by, of either run) are one kind, so a resample is one multinomial draw of how many are of which.

    Args:
        a: a folder with predictions.tsv, of a run or an evaluation.
        b: another one.
        samples: how often to draw.
        seed: of the draws.
        measure: ``wer``, wrong words a hundred; or ``per``, edits a hundred symbols of the closest references.

    Raises:
        UserError: predictions.tsv is missing or malformed, or the runs share no word.
    """
    first, second = _judged(a, measure), _judged(b, measure)
    shared = first.keys() & second.keys()
    if not shared:
        raise UserError(f"{a} and {b} share no word, so they cannot be compared")
    kinds, times = np.unique([(*first[word], *second[word]) for word in shared], axis=0, return_counts=True)
    found = _points(times @ kinds)
    drawn = np.random.default_rng(seed).multinomial(len(shared), times / len(shared), size=samples)
    return judged(float(found), _points(drawn @ kinds))


def judged(found: float, resampled: np.ndarray) -> Difference:
    """A difference as it was found, and as other draws of the test have it."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    tail = min(np.sum(resampled <= 0), np.sum(resampled >= 0))
    return Difference(found, float(low), float(high), min(1.0, 2 * (float(tail) + 1) / (len(resampled) + 1)))


def _points(sums: np.ndarray) -> np.ndarray:
    """(..., 4) errors and symbols of either run -> the difference of the rates, in points."""
    errors, of, others, of_others = np.moveaxis(sums, -1, 0)
    return np.asarray(100 * (errors / np.maximum(of, 1) - others / np.maximum(of_others, 1)))


def _judged(folder: Path | str, measure: Measure) -> dict[object, tuple[int, int]]:
    """Each line's errors and what they are out of, by what tells it apart: lines that are equal are numbered."""
    times: Counter[object] = Counter()
    judged: dict[object, tuple[int, int]] = {}
    for line in read_predictions(folder):
        word = (line.tag, line.name, line.source, frozenset(line.references))
        times[word] += 1
        judged[word, times[word]] = (int(line.edits > 0), 1) if measure == "wer" else (line.edits, _symbols(line))
    return judged


def _symbols(line: Prediction) -> int:
    """How many symbols the reference has that the output is closest to."""
    return len(closest(line.output, line.references)[1])

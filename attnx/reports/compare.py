"""Several runs side by side: which won, and how surely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from attnx.errors import UserError
from attnx.read_run import Run, read_run
from attnx.reports.folder import read_predictions, wrote_symbols
from attnx.reports.lengths import BINS, Row, bin_label, error_by_length

ABSENT = "-"
LESS_IS_BETTER = ("per", "wer", "cer", "ter", "error_rate", "error", "loss", "seconds")
MORE_IS_BETTER = ("per_second", "accuracy", "bleu", "chrf")


class Difference(NamedTuple):
    """WER of the first run minus the second's, in points, its 95 % interval, and a two-sided p-value."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(a: Path | str, b: Path | str, samples: int = 2000, seed: int = 0) -> Difference:
    """Compare the word error rates of two runs over the words they share; below zero, ``a`` is better.

    Words are drawn again with replacement, in pairs (Koehn 2004, https://aclanthology.org/W04-3250). A word
    counts as shared when both runs have it with the same references. Each word adds -1, 0 or 1 to the
    difference, so a resample is one multinomial draw of how many words add which.

    Raises:
        UserError: predictions.tsv is missing or malformed, or the runs share no word.
    """
    first, second = _wrong(a), _wrong(b)
    shared = first.keys() & second.keys()
    if not shared:
        raise UserError(f"{a} and {b} share no word, so they cannot be compared")
    steps = np.array([first[word] - second[word] for word in shared])
    shares = np.array([np.mean(steps == step) for step in (-1, 0, 1)])
    counts = np.random.default_rng(seed).multinomial(len(steps), shares, size=samples)
    resampled = 100 * (counts[:, 2] - counts[:, 0]) / len(steps)
    low, high = np.percentile(resampled, [2.5, 97.5])
    tail = min(np.sum(resampled <= 0), np.sum(resampled >= 0))
    p = min(1.0, 2 * (float(tail) + 1) / (samples + 1))
    return Difference(100 * float(steps.mean()), float(low), float(high), p)


def compare(folders: Sequence[Path | str]) -> Table:
    """Lay runs side by side: a column a run, a row a measure, the best of a row in bold.

    Below the test results come PER and WER by source length, and the difference in WER from the first run,
    with its 95 % interval and p-value, for the runs that kept their predictions, if these are symbols.

    Raises:
        UserError: no folders, or one of them is not a readable run folder.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = [read_run(folder) for folder in folders]
    table = Table(title="runs compared", title_justify="left", title_style="bold")
    table.add_column("measure")
    for heading in _headings(runs):
        table.add_column(heading, justify="right")
    for measure in dict.fromkeys(name for run in runs for name in run.results):
        _add(table, Text(measure), [_number(run.results.get(measure)) for run in runs], _better(measure))
    _add_lengths(table, runs)
    if len(runs) > 1 and any(wrote_symbols(run.path) for run in runs):
        table.add_section()
        table.caption = "last row: points and 95 % interval, paired bootstrap; below zero is better than the first"
        table.add_row("WER against the first", ABSENT, *(_against(runs[0], run) for run in runs[1:]))
    return table


def _wrong(folder: Path | str) -> dict[object, int]:
    """Whether each line is wrong, by what tells it apart: lines that are equal are numbered."""
    times: Counter[object] = Counter()
    wrong: dict[object, int] = {}
    for line in read_predictions(folder):
        word = (line.tag, line.name, line.source, frozenset(line.references))
        times[word] += 1
        wrong[word, times[word]] = int(line.edits > 0)
    return wrong


def _headings(runs: Sequence[Run]) -> list[Text]:
    names = [run.name for run in runs]
    unique = len(set(names)) == len(names)
    return [Text(run.name if unique else run.path.resolve().name) for run in runs]


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _better(measure: str) -> Callable[[Sequence[float]], float] | None:
    if measure.endswith(MORE_IS_BETTER):
        return max
    return min if measure.endswith(LESS_IS_BETTER) else None


def _shown(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _add(
    table: Table,
    label: Text,
    values: Sequence[float | None],
    better: Callable[[Sequence[float]], float] | None,
) -> None:
    known = [value for value in values if value is not None]
    best = _shown(better(known)) if better and len(known) > 1 else None
    shown = [_shown(value) for value in values]
    table.add_row(label, *(Text(text, "bold" if text == best else "") for text in shown))


def _add_lengths(table: Table, runs: Sequence[Run]) -> None:
    rows = [_by_label(run) for run in runs]
    labels = [bin_label(BINS, number) for number in range(len(BINS) + 1)]
    for measure in ("per", "wer"):
        table.add_section()
        for label in labels:
            found = [row.get(label) for row in rows]
            if any(found):
                values = [None if row is None else float(getattr(row, measure)) for row in found]
                _add(table, Text(f"{measure.upper()}, length {label}"), values, min)


def _by_label(run: Run) -> dict[str, Row]:
    return {row.label: row for row in error_by_length(run.path)} if wrote_symbols(run.path) else {}


def _against(first: Run, other: Run) -> str:
    if not all(wrote_symbols(run.path) for run in (first, other)):
        return ABSENT
    try:
        found = paired_bootstrap(other.path, first.path)
    except UserError:  # the files were read for the rows above, so all that can be wrong is that nothing is shared
        return "no shared word"
    return f"{found.difference:+.2f} ({found.low:+.2f} to {found.high:+.2f}), p {found.p:.3f}"

"""Counts how a run read: how widely, how much of the source, how straight, and how far from gold alignments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from attnx.errors import UserError
from attnx.files.bounded_files import read_json
from attnx.reports.stats.gold_alignments import Gold, agreement, check_fits, read_gold
from attnx.runs.alignments import Alignment, Weights, read_examples, read_lines, without_end
from attnx.runs.layout import ALIGNMENT_STATISTICS
from attnx.runs.predictions import read_predictions
from attnx.runs.run import read_run

STATISTICS = ALIGNMENT_STATISTICS
HARDLY, AGAIN = 0.2, 2.0  # a source position is hardly read below the one, and read again and again above the other
WIDTH = 0.2  # of the diagonal, as a share of either side


class Statistics(NamedTuple):
    """How the weights of some examples lay.

    Attributes:
        examples: how many were counted.
        steps: the symbols they wrote, end symbols included.
        entropy: bits, the mean over steps.
        positions: the source symbols they read from.
        coverage: the weights a source position got from all steps together, the mean over positions.
        hardly_read: how many positions got less than 0.2.
        read_again: how many got more than 2.
        diagonality: from 0 to 1, how near the diagonal the weights lie; None without a source.
        alignment_error_rate: from 0 to 1, against gold alignments; None without any.
        gold_examples: how many it is counted over.
    """

    examples: int
    steps: int
    entropy: float | None
    positions: int
    coverage: float | None
    hardly_read: int
    read_again: int
    diagonality: float | None
    alignment_error_rate: float | None = None
    gold_examples: int = 0


OF_GOLD = ("alignment_error_rate", "gold_examples")
SAID = {
    "examples": "examples counted, best hypotheses",
    "steps": "steps written, ends included",
    "entropy": "bits a step: 0 reads one position, 1 two alike, 2 four",
    "positions": "positions of the sources",
    "coverage": "weight a source position got from all steps together, mean",
    "hardly_read": f"source positions that got less than {HARDLY:g}",
    "read_again": f"source positions that got more than {AGAIN:g}",
    "diagonality": "1: all weight on the diagonal",
    "alignment_error_rate": "against gold links, 0 is best",
    "gold_examples": "examples with gold links, written as their reference",
}

OF_SOURCES = ("positions", "coverage", "hardly_read", "read_again", "diagonality")


def entropy(weights: Weights) -> NDArray[np.float64]:
    """Bits of each row, (t, m) -> (t,); rows are made to sum to one, an empty row has none.

    Formula: ``H_t = - sum_m a_tm log2 a_tm``
    """
    total = weights.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = np.divide(weights, total, out=np.zeros(weights.shape), where=total > 0)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1))


def coverage(weights: Weights) -> NDArray[np.float64]:
    """What each position got from all steps together, (t, m) -> (m,).

    Formula: ``C_m = sum_t a_tm``
    Source: Tu et al. 2016, section 3, https://arxiv.org/abs/1601.04811
    """
    return np.asarray(weights.sum(axis=0, dtype=np.float64))


def diagonality(weights: Weights) -> float | None:
    """How near the diagonal the weights (t, s) lie, from 0 to 1; None where there are none.

    It is the mean, weighted by the weights, of how near a cell is; one minus the penalty of guided attention.

    Formula: ``D = sum_ts a_ts exp(-((s + 1/2) / S - (t + 1/2) / T)^2 / (2 g^2)) / sum_ts a_ts, g = 0.2``
    Source: Tachibana et al. 2018, section 4.1, https://arxiv.org/abs/1710.08969
    """
    down, across = ((np.arange(size) + 0.5) / max(size, 1) for size in weights.shape)
    near = np.exp(-((across - down[:, None]) ** 2) / (2 * WIDTH**2))
    total = weights.sum(dtype=np.float64)
    return float((near * weights).sum() / total) if total > 0 else None


def statistics(examples: Sequence[Alignment], view: str = "", gold: dict[int, Gold] | None = None) -> Statistics:
    """Count over examples.

    Args:
        examples: best hypotheses.
        view: which of the heads, by name; the mean of them for "".
        gold: the links of some of the examples, by their place among them.
    """
    read = [(one, one.views[view] if view else one.weights) for one in examples]
    rows = np.concatenate([entropy(weights) for _, weights in read])
    sources = [weights[:, : len(one.read)] for one, weights in read]
    covered = np.concatenate([coverage(weights) for weights in sources])
    straight = [found for weights in sources if (found := diagonality(weights)) is not None]
    judged = [(*read[place], links) for place, links in (gold or {}).items() if not examples[place].wrong]
    return Statistics(
        examples=len(examples),
        steps=len(rows),
        entropy=_mean(rows),
        positions=len(covered),
        coverage=_mean(covered),
        hardly_read=int((covered < HARDLY).sum()),
        read_again=int((covered > AGAIN).sum()),
        diagonality=_mean(straight),
        alignment_error_rate=agreement(judged).error,
        gold_examples=len(judged),
    )


def run_statistics(folder: Path | str, gold: Path | str | None = None) -> dict[str, Statistics]:
    """Count over the alignments that a run kept: under "" the weights, or the mean of heads, then of each head.

    Raises:
        UserError: no run folder, no alignments, or a gold file that is not that of the run's test.
    """
    read_run(folder)
    examples = [next(iter(hypotheses.values())) for hypotheses in read_examples(folder)]
    if not examples:
        raise UserError(f"{folder}: it kept no alignments; a run with attention=none has none")
    links = _gold_of(folder, gold, examples) if gold else None
    return _by_head(examples, links)


def file_statistics(path: Path | str) -> dict[str, Statistics]:
    """The same over the alignments that ``attnx predict --alignments FILE.jsonl`` wrote, the best of each line.

    Raises:
        UserError: a line of the file is none of them, or there is none.
    """
    examples = read_lines(path)
    if not examples:
        raise UserError(f"{path}: no alignments")
    return _by_head(examples)


def write_statistics(folder: Path | str, found: dict[str, Statistics]) -> Path:
    """Write alignment_statistics.json into a run folder: flat, and ``heads`` where there are several."""
    heads = {name: one._asdict() for name, one in found.items() if name}
    path = Path(folder) / STATISTICS
    path.write_text(
        json.dumps({**found[""]._asdict(), **({"heads": heads} if heads else {})}, indent=2) + "\n", "utf-8"
    )
    return path


def with_gold(folder: Path | str, found: Statistics) -> Statistics:
    """The same with what was last counted against gold alignments, if anything was; see :func:`write_statistics`."""
    path = Path(folder) / STATISTICS
    try:
        held = read_json(path) if path.is_file() else {}
        return found._replace(**{name: held[name] for name in OF_GOLD if name in held})
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: not what attnx stats writes ({error})") from error


def statistics_table(found: dict[str, Statistics], title: str) -> Table:
    """A row a measure, a column for the weights or their mean, and one a head."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=len(found) > 1)
    table.add_column("", style="bold", no_wrap=True)
    for name in found:
        table.add_column(name or "mean", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    columns = [statistics_rows(one) for one in found.values()]
    for rows in zip(*columns, strict=True):
        table.add_row(rows[0][0], *(value for _, value, _ in rows), rows[0][2])
    return table


def statistics_rows(found: Statistics) -> list[tuple[str, str, str]]:
    """A measure's name, its value and what it means, in words.

    Those of gold alignments only where there are any, those of sources only where a source was read.
    """
    absent = {*(() if found.gold_examples else OF_GOLD), *(() if found.positions else OF_SOURCES)}
    shown = {name: said for name, said in SAID.items() if name not in absent}
    return [(name.replace("_", " "), _number(getattr(found, name)), said) for name, said in shown.items()]


def _by_head(examples: Sequence[Alignment], gold: dict[int, Gold] | None = None) -> dict[str, Statistics]:
    """Of the weights, or the mean of the heads, and of each head that all examples have."""
    heads = [name for name in list(examples[0].views)[1:] if all(name in one.views for one in examples)]
    return {name: statistics(examples, name, gold) for name in ["", *heads]}


def _gold_of(folder: Path | str, file: Path | str, examples: Sequence[Alignment]) -> dict[int, Gold]:
    """The links of the examples, found by their lines in predictions.tsv, which are those of the gold file."""
    gold, tested = read_gold(file), read_predictions(folder)
    if len(gold) < len(tested):
        raise UserError(f"{file}: {len(gold)} lines where the run was tested on {len(tested)} examples")
    lines = {(one.source, one.name, found): line for line, one in enumerate(tested) for found in one.references}
    found = {}
    for place, one in enumerate(examples):
        line = lines.get((one.read, one.name, without_end(one.reference)))
        if line is not None:
            check_fits(gold[line], one, f"{file}:{line + 1}")
            found[place] = gold[line]
    if not found:
        raise UserError(f"{file}: none of the run's alignments is a line of its predictions.tsv")
    return found


def _mean(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"

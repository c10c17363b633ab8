"""Statistics of attention weights: entropy, coverage, diagonality, and alignment error rate against gold links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text
from scipy.special import entr

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import BYTE_ORDER_MARK, read_text
from attnx.files.printable import printable
from attnx.runs.alignments import Alignment, Link, Weights, predicted_links, read_best_alignments, without_end
from attnx.runs.layout import ALIGNMENT_STATISTICS
from attnx.runs.predictions import read_predictions
from attnx.runs.run import read_run

LINK = re.compile(r"(\d+)([-p?])(\d+)")


class GoldLinks(NamedTuple):
    """The links of one example, each a source and a reference position from 0; ``possible`` includes ``sure``."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_gold(path: Path | str) -> list[GoldLinks]:
    """Read a line per example: ``0-0 2-1`` are sure links, ``3p2`` or ``3?2`` a possible one, source first.

    Raises:
        UserError: no such file, or a malformed line.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: {'is a folder; name a file of links' if Path(path).is_dir() else 'no such file'}")
    lines = read_text(Path(path)).removeprefix(BYTE_ORDER_MARK).splitlines()
    gold = []
    for number, line in enumerate(lines, start=1):
        links: dict[bool, set[Link]] = {True: set(), False: set()}
        for word in line.split():
            if (match := LINK.fullmatch(word)) is None:
                advice = "write 0-0 for a sure one and 0p0 or 0?0 for a possible one"
                raise UserError(f"{path}:{number}: {word!r} is no link; {advice}")
            links[match[2] == "-"].add((int(match[1]), int(match[3])))
        gold.append(GoldLinks(frozenset(links[True]), frozenset(links[True] | links[False])))
    return gold


def alignment_error_rate(examples: Iterable[tuple[set[Link], GoldLinks]]) -> float | None:
    """The alignment error rate of predicted links, from 0 to 1; None without links.

    Formula: ``AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)``
    Source: Och and Ney 2003, section 5, https://aclanthology.org/J03-1002
    """
    matches = total = 0
    for links, gold in examples:
        matches += len(links & gold.sure) + len(links & gold.possible)
        total += len(links) + len(gold.sure)
    return 1 - matches / total if total else None


MIN_COVERAGE, MAX_COVERAGE = 0.2, 2.0  # of a source position; below and above, it is low and high
DIAGONAL_WIDTH = 0.2  # relative to the sides


class Statistics(NamedTuple):
    """Attention statistics over examples, as ``DESCRIPTIONS`` explains; None where there is nothing to average."""

    examples: int
    steps: int
    entropy: float | None
    positions: int
    coverage: float | None
    low_coverage: int
    high_coverage: int
    diagonality: float | None
    alignment_error_rate: float | None = None
    gold_examples: int = 0


GOLD_FIELDS = ("alignment_error_rate", "gold_examples")
SOURCE_FIELDS = ("positions", "coverage", "low_coverage", "high_coverage", "diagonality")
DESCRIPTIONS = {
    "examples": "examples, best hypothesis of each",
    "steps": "output steps, end symbols included",
    "entropy": "bits a step: 0 for one position, 1 for two equal weights, 2 for four",
    "positions": "source positions",
    "coverage": "weight of a source position summed over steps, mean",
    "low_coverage": f"source positions with a coverage below {MIN_COVERAGE:g}",
    "high_coverage": f"source positions with a coverage above {MAX_COVERAGE:g}",
    "diagonality": "1: all weight on the diagonal",
    "alignment_error_rate": "against gold links, 0 is best",
    "gold_examples": "examples with gold links and a correct output",
}


def entropy(weights: Weights) -> NDArray[np.float64]:
    """Entropy of each row in bits, (t, m) -> (t,); rows are normalized, an empty row has 0.

    Formula: ``H_t = - sum_m a_tm log2 a_tm``
    """
    total = weights.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = np.divide(weights, total, out=np.zeros(weights.shape), where=total > 0)
    return np.asarray(entr(shares).sum(axis=1) / np.log(2))


def coverage(weights: Weights) -> NDArray[np.float64]:
    """Coverage of each position: its weight summed over steps, (t, m) -> (m,).

    Formula: ``C_m = sum_t a_tm``
    Source: Tu et al. 2016, section 3, https://arxiv.org/abs/1601.04811
    """
    return np.asarray(weights.sum(axis=0, dtype=np.float64))


def diagonality(weights: Weights) -> float | None:
    """Nearness of the weights (t, s) to the diagonal, from 0 to 1; None if all are 0.

    It is one minus the penalty of guided attention, averaged with the weights.

    Formula: ``D = sum_ts a_ts exp(-((s + 1/2) / S - (t + 1/2) / T)^2 / (2 g^2)) / sum_ts a_ts, g = 0.2``
    Source: Tachibana et al. 2018, section 4.1, https://arxiv.org/abs/1710.08969
    """
    steps, positions = ((np.arange(size) + 0.5) / max(size, 1) for size in weights.shape)
    nearness = np.exp(-((positions - steps[:, None]) ** 2) / (2 * DIAGONAL_WIDTH**2))
    total = weights.sum(dtype=np.float64)
    return float((nearness * weights).sum() / total) if total > 0 else None


def statistics(examples: Sequence[Alignment], head: str = "", gold: dict[int, GoldLinks] | None = None) -> Statistics:
    """Compute the statistics of a head, or of the mean over heads, over examples with gold links by their index."""
    weights = [example.views[head] if head else example.weights for example in examples]
    entropies = np.concatenate([entropy(rows) for rows in weights])
    sources = [rows[:, : len(example.source_symbols)] for example, rows in zip(examples, weights, strict=True)]
    coverages = np.concatenate([coverage(rows) for rows in sources])
    diagonals = [value for rows in sources if (value := diagonality(rows)) is not None]
    correct = {index: links for index, links in (gold or {}).items() if examples[index].is_right}
    return Statistics(
        examples=len(examples),
        steps=len(entropies),
        entropy=_mean(entropies),
        positions=len(coverages),
        coverage=_mean(coverages),
        low_coverage=int((coverages < MIN_COVERAGE).sum()),
        high_coverage=int((coverages > MAX_COVERAGE).sum()),
        diagonality=_mean(diagonals),
        alignment_error_rate=alignment_error_rate(
            (predicted_links(examples[index], weights[index]), links) for index, links in correct.items()
        ),
        gold_examples=len(correct),
    )


def run_statistics(folder: Path | str, gold: Path | str | None = None) -> dict[str, Statistics]:
    """Compute the statistics of a run's saved alignments, "" for the weights or the mean over heads, and of each head.

    Raises:
        UserError: no run folder, no alignments, or a gold file that does not fit the run's test.
    """
    read_run(folder)
    examples = read_best_alignments(folder)
    if not examples:
        raise UserError(f"{folder}: the run saved no alignments; a run without attention has none")
    links = _match_gold(folder, gold, examples) if gold else None
    heads = [name for name in list(examples[0].views)[1:] if all(name in example.views for example in examples)]
    return {name: statistics(examples, name, links) for name in ["", *heads]}


def write_statistics(folder: Path | str, by_head: dict[str, Statistics]) -> Path:
    """Write alignment_statistics.json into a run folder; several heads are below the key ``heads``."""
    heads = {name: values._asdict() for name, values in by_head.items() if name}
    path = Path(folder) / ALIGNMENT_STATISTICS
    write_json(path, {**by_head[""]._asdict(), **({"heads": heads} if heads else {})})
    return path


def statistics_table(by_head: dict[str, Statistics], title: str) -> Table:
    """A table with a row per statistic, a column for the weights or their mean, and one per head."""
    table = Table(
        title=Text(printable(title)), title_justify="left", box=None, pad_edge=False, show_header=len(by_head) > 1
    )
    table.add_column("", style="bold", no_wrap=True)
    for name in by_head:
        table.add_column(Text(printable(name or "mean")), justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for rows in zip(*map(statistics_rows, by_head.values()), strict=True):
        table.add_row(rows[0][0], *(value for _, value, _ in rows), rows[0][2])
    return table


def statistics_rows(statistics: Statistics) -> list[tuple[str, str, str]]:
    """Name, value and description of each statistic; without gold links or a source theirs are left out."""
    hidden = {*(() if statistics.gold_examples else GOLD_FIELDS), *(() if statistics.positions else SOURCE_FIELDS)}
    rows = []
    for name, value in statistics._asdict().items():
        if name not in hidden:
            text = "-" if value is None else f"{value:.3f}" if isinstance(value, float) else f"{value:,}"
            rows.append((name.replace("_", " "), text, DESCRIPTIONS[name]))
    return rows


def _match_gold(folder: Path | str, file: Path | str, examples: Sequence[Alignment]) -> dict[int, GoldLinks]:
    """The gold links of the examples; a gold file has the lines of predictions.tsv."""
    gold, predictions = read_gold(file), read_predictions(folder)
    if len(gold) != len(predictions):
        raise UserError(f"{file}: {len(gold)} lines, but the run has {len(predictions)} test examples")
    lines = {(row.source, row.name, right): line for line, row in enumerate(predictions) for right in row.references}
    matches = {}
    for index, example in enumerate(examples):
        source, reference = example.source_symbols, without_end(example.reference)
        if (line := lines.get((source, example.name, reference))) is None:
            continue
        for i, j in sorted(gold[line].possible):
            if i >= len(source) or j >= len(reference):
                raise UserError(
                    f"{file}:{line + 1}: the link {i}-{j} is outside {len(source)} source and {len(reference)} "
                    "reference symbols, counted from 0; is it the gold file of this run's test?"
                )
        matches[index] = gold[line]
    if not matches:
        raise UserError(f"{file}: none of the run's alignments is in its predictions.tsv")
    return matches


def _mean(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    return float(np.mean(values)) if len(values) else None

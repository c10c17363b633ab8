"""Further tables of a report in Markdown: errors by length, agreement of alignments, of values, and of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import TypeVar

from attnx.reports.markdown import table
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.ablations import Reference, ablations
from attnx.reports.sweep.alignment_agreement import SEEDS, AlignmentAgreement
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.conclusions import p_value
from attnx.reports.sweep.metrics import Metric
from attnx.reports.sweep.rank_agreement import RankAgreement
from attnx.reports.sweep.value_agreement import ValueAgreement

MAX_SETTINGS = 10  # the best ones
ALIGNMENT_HEAD = ("choice", "mean", "most alike", "", "least alike", "", "pairs of runs")
VALUE_HEAD = ("choice", "mean", "most alike", "", "least alike", "", "settings")
ABLATION_HEAD = ("choice", "value", "mean", "difference", "95 % interval", "p")
AGREEMENT_HEAD = ("test", "test", "settings in both", "rank correlation", "p")
Agreement = TypeVar("Agreement", bound=AlignmentAgreement | ValueAgreement)


def length_section(comparison: Comparison) -> Iterator[str]:
    """The error rates of the best settings by source length, and of those without attention."""
    if (rates := comparison.length_rates) is None or len(rates.groups) < 2:
        return
    rows = [
        [str(rank), comparison.settings[setting].name, *(f"{rate:.2f}" for rate in by_group)]
        for rank, (setting, by_group) in enumerate(rates.rates.items(), start=1)
        if rank <= MAX_SETTINGS or has_no_attention(comparison, setting)
    ]
    yield "### Errors by source length"
    which = "the best settings, and of those without attention" if len(rows) > MAX_SETTINGS else "the best settings"
    yield f"The {rates.label} in percent of {which}, by the number of source symbols."
    counts = [f"{label} ({count:,})" for label, count in zip(rates.labels, rates.examples, strict=True)]
    yield table(["rank", "setting", *counts], rows)


def ablation_section(comparison: Comparison, reference: Reference) -> Iterator[str]:
    """What it costs to change one choice of a reference; nothing if it is not among the settings."""
    main = comparison.rankings[0]
    result = ablations(comparison.keys, comparison.settings, main, reference)
    start, text = result.reference, main.metric.format
    test = "rows (Dunnett's test)" if result.has_equal_variances else "pairs, with their own variances (Games-Howell)"
    yield "### One choice changed"
    yield (
        f"{main.name(start)} has {main.metric.label} {text(start.mean)}. Each row differs from it in one choice. "
        f"A difference above zero is worse; intervals and p are adjusted for all {test}."
    )
    rows = [
        [change.factor, change.value, text(change.row.mean), *difference_cells(change.difference, main.metric)]
        for change in result.changed
    ]
    yield table(ABLATION_HEAD, rows)


def difference_cells(difference: MeanDifference | None, metric: Metric) -> list[str]:
    """The difference, its interval and p; empty cells without one."""
    if difference is None:
        return ["", "", ""]
    interval = f"{metric.format(difference.low)} to {metric.format(difference.high)}"
    return [metric.format(difference.difference), interval, p_value(difference.p)]


def alignment_section(comparison: Comparison) -> Iterator[str]:
    """How far runs that differ in one choice alone attend to the same positions."""
    if not comparison.alignments:
        return
    yield "### Agreement of the alignments"
    yield (
        "The share of output steps at which two runs that differ in one choice alone read the same position most, over "
        f"saved examples that both have right. The row `{SEEDS}` is of runs of the same setting."
    )
    rows = _agreement_rows(
        comparison.alignments, lambda pair: pair.share, _percent, lambda pairs: sum(pair.pairs for pair in pairs)
    )
    yield table(ALIGNMENT_HEAD, rows)


def value_section(comparison: Comparison) -> Iterator[str]:
    """Whether settings keep their order when a choice changes."""
    if not comparison.value_agreements:
        return
    yield "### Agreement of the values"
    yield (
        "Whether settings keep their order when a choice changes: Spearman's correlation of the orders that settings "
        "have with two of its values, 1 if they are the same. The last column is the least number of settings compared."
    )
    rows = _agreement_rows(
        comparison.value_agreements,
        lambda pair: pair.correlation,
        "{:+.2f}".format,
        lambda pairs: min(pair.settings for pair in pairs),
    )
    yield table(VALUE_HEAD, rows)


def agreement_section(agreements: Sequence[RankAgreement]) -> Iterator[str]:
    """How far the tests agree about the settings that they share."""
    if not agreements:
        return
    yield "## Agreement of the tests"
    yield "Spearman's correlation of the orders of settings by the main metric: 1 if both tests rank them alike."
    rows = [[*a.titles, str(a.settings), f"{a.correlation:+.2f}", p_value(a.p)] for a in agreements]
    yield table(AGREEMENT_HEAD, rows)


def has_no_attention(comparison: Comparison, setting: int) -> bool:
    """Whether a setting, by its index, is a baseline without attention."""
    return dict(zip(comparison.keys, comparison.settings[setting].values, strict=True)).get("attention") == "none"


def _agreement_rows(
    agreements: Sequence[Agreement],
    number: Callable[[Agreement], float],
    text: Callable[[float], str],
    count: Callable[[Sequence[Agreement]], int],
) -> list[list[str]]:
    """A row for each choice: the mean number, the values that are most and least alike, and a count."""
    groups: dict[str, list[Agreement]] = {}
    for agreement in agreements:
        groups.setdefault(agreement.factor, []).append(agreement)
    rows = []
    for factor, pairs in groups.items():
        row = [factor, text(fmean(map(number, pairs)))]
        for pair in (max(pairs, key=number), min(pairs, key=number)):
            row += [" and ".join(filter(None, pair.values)), text(number(pair))]
        rows.append([*row, str(count(pairs))])
    return rows


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

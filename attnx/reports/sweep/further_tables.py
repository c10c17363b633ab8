"""Further tables of a report in Markdown: errors by length, and ablations."""

from __future__ import annotations

from collections.abc import Iterator

from attnx.reports.markdown import table
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.ablations import Reference, ablations
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.conclusions import p_value
from attnx.reports.sweep.metrics import Metric

MAX_SETTINGS = 10  # the best ones
ABLATION_HEAD = ("choice", "value", "mean", "difference", "95 % interval", "p")


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
    yield "### One choice changed"
    yield (
        f"{main.name(start)} has {main.metric.label} {text(start.mean)}. Each row differs from it in one choice. "
        f"A difference above zero is worse; intervals and p are adjusted for all rows."
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


def has_no_attention(comparison: Comparison, setting: int) -> bool:
    """Whether a setting, by its index, is a baseline without attention."""
    return dict(zip(comparison.keys, comparison.settings[setting].values, strict=True)).get("attention") == "none"

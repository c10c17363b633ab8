"""The report in Markdown: conclusions, ranking, effects, ablations, errors by length, and unfinished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attnx.files.parse_number import count_phrase
from attnx.files.printable import printable
from attnx.reports.markdown import table
from attnx.reports.significant_digits import p_value
from attnx.reports.sweep.ablations import Reference, ablations
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis
from attnx.reports.sweep.front import front_section, matched_sentence
from attnx.reports.sweep.metrics import INTERVAL
from attnx.reports.sweep.run_record import RunRecord, group_failures, steps_range

NO_RUNS = "No run is finished, so there is nothing to compare."
NO_METRICS = "These runs have no metric with a known direction."
RANKING_HEAD = ("sd", "seeds", "steps", "behind the best", "95 % interval", "p")
LEVEL_HEAD = ("choice", "value", "mean", "95 % interval", "behind the best value", "95 % interval", "p", "settings")
MAX_SETTINGS = 10  # the best ones
ABLATION_HEAD = ("choice", "value", "mean", "difference", "95 % interval", "p")
F_TEST_HEAD = ("choice", "F", "degrees of freedom", "p", "adjusted p")


def markdown(
    title: str,
    records: Sequence[RunRecord],
    compared: Sequence[Comparison],
    reference: Reference | None = None,
    against: str | None = None,
) -> str:
    """The report's text; with a ``reference``, the ablations of each test with its keys: a UserError if none has.

    With a cost, ``against``, it has the settings that no other one beats in quality and cost.
    """
    keys = {*(reference or ())}
    some_has_keys = any(keys <= {*comparison.keys} for comparison in compared)  # else the first says which it lacks
    sections = [f"# {title}: report", f"{describe_runs(records)}."]
    if not compared:
        sections.append(NO_RUNS)
    if len(compared) > 1:
        sections.append(f"The runs have {len(compared)} different tests, which are not compared with each other.")
    for comparison in compared:
        sections += [f"## {comparison.title}", *_comparison(comparison)]
        if reference and comparison.rankings and (keys <= {*comparison.keys} or not some_has_keys):
            sections += ablation_section(comparison, reference)
        sections += length_section(comparison)
        if against and comparison.rankings:
            sections += front_section(comparison, against)
    if failures := group_failures(records):
        sections += ["## Not finished", "\n".join(f"- {failure.describe()}" for failure in failures)]
    return printable("\n\n".join(sections) + "\n", keep="\n")


def describe_runs(records: Sequence[RunRecord]) -> str:
    """The number of runs, and how many have each status."""
    counts = ", ".join(f"{count} {status}" for status, count in Counter(run.status for run in records).items())
    return f"{count_phrase(len(records), 'run')}: {counts}"


def _comparison(comparison: Comparison) -> Iterator[str]:
    if not comparison.rankings:
        yield NO_METRICS
        return
    main = comparison.rankings[0]
    yield "\n\n".join(main.verdict)
    yield table(ranking_head(comparison), ranking_rows(comparison))
    yield from matched_sentence(comparison)
    if comparison.superseded:
        verb = "is" if comparison.superseded == 1 else "are"
        runs = count_phrase(comparison.superseded, "earlier run")
        yield f"{runs} with the setting and seed of a later one {verb} left out."
    if main.effects and len(main.rows) > 1:
        yield "### Effects of the choices"
        yield (
            f"Mean {main.metric.label} of each value, with equal weights over the values of the other choices (main "
            "effects, least squares)."
        )
        yield table(LEVEL_HEAD, effect_rows(main))
        yield " ".join(main.effects_summary)
    if tests := list(f_test_rows(main)):
        yield (
            "F-tests of main effects, and of interactions of two choices (A by B), with p adjusted by Holm's rule for "
            "all main effects, or for all interactions."
        )
        yield table(F_TEST_HEAD, tests)


def ranking_head(comparison: Comparison) -> list[str]:
    """The names of the columns of :func:`ranking_rows`; there must be a metric."""
    return ["rank", *comparison.columns, comparison.rankings[0].metric.label, *RANKING_HEAD]


def ranking_rows(comparison: Comparison) -> Iterator[list[str]]:
    """The settings by the main metric, best first, with their differences from the best, as text."""
    main = comparison.rankings[0]
    for rank, row in enumerate(main.rows, start=1):
        text = main.metric.format
        cells = [str(rank), *row.setting.cells, text(row.mean), "" if row.sd is None else text(row.sd)]
        cells += [row.seed_count, steps_range(row.setting.runs)]
        yield [*cells, *main.metric.difference_cells(row.difference)]


def effect_rows(main: RankingAnalysis, interval: str = INTERVAL) -> Iterator[list[str]]:
    """The values of each choice with their means and their differences from the best one, as text."""
    metric = main.metric
    for effect in main.effects:
        for value, mean, low, high, difference, settings in effect.levels:
            cells = [effect.name, value, "" if mean is None else metric.format(mean)]
            cells += [metric.interval_cell(low, high, interval), *metric.difference_cells(difference, interval)]
            yield [*cells, str(settings)]


def f_test_rows(main: RankingAnalysis) -> Iterator[list[str]]:
    """The F-tests of main effects and interactions, as text; ``F_TEST_HEAD`` names their columns."""
    tests = [(effect.name, effect.test) for effect in main.effects if effect.test is not None]
    for name, test in [*tests, *((" by ".join(pair.names), pair.test) for pair in main.interactions)]:
        degrees = f"{test.degrees} and {test.error_degrees}"
        yield [name, f"{test.f:.2f}", degrees, p_value(test.p), p_value(test.adjusted_p)]


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
    start, changed = ablations(comparison, reference)
    text = main.metric.format
    yield "### One choice changed"
    yield (
        f"{main.name(start)} has {main.metric.label} {text(start.mean)}. Each row differs from it in one choice. "
        f"A difference above zero is worse; intervals and p are adjusted for all rows."
    )
    rows = [
        [change.factor, change.value, text(change.row.mean), *main.metric.difference_cells(change.difference)]
        for change in changed
    ]
    yield table(ABLATION_HEAD, rows)


def has_no_attention(comparison: Comparison, setting: int) -> bool:
    """Whether a setting, by its index, is a baseline without attention."""
    return dict(zip(comparison.keys, comparison.settings[setting].values, strict=True)).get("attention") == "none"

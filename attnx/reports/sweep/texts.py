"""The texts of a report: in Markdown, as CSV, and as LaTeX tables for a paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from attnx.files.parse_number import count_phrase
from attnx.files.printable import csv_text, markdown_table, printable
from attnx.reports.significant_digits import p_value
from attnx.reports.stats.analysis_of_variance import FTest
from attnx.reports.sweep.ablations import Reference, ablation_section
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis
from attnx.reports.sweep.front import front_section, matched_sentence
from attnx.reports.sweep.metrics import COSTS, INTERVAL
from attnx.reports.sweep.run_record import RunRecord, group_failures, steps_range

NO_RUNS = "No run is finished, so there is nothing to compare."
NO_METRICS = "These runs have no metric with a known direction."
RANKING_HEAD = ("sd", "seeds", "steps", "behind the best", "95 % interval", "p")
LEVEL_HEAD = ("choice", "value", "mean", "95 % interval", "behind the best value", "95 % interval", "p", "settings")
MAX_SETTINGS = 10  # the best ones
F_TEST_HEAD = ("choice", "F", "degrees of freedom", "p", "adjusted p")
RANKING_SUFFIXES = ("", "_sd", "_scale_mean", "_low", "_high", "_behind", "_behind_low", "_behind_high", "_p")
LEVEL = ("settings", "mean", "low", "high")
DIFFERENCE = ("behind", "behind_low", "behind_high", "behind_p")
EFFECT_COLUMNS = ("test", "metric", "effect", "choice", "value", *LEVEL, *DIFFERENCE, *FTest._fields)
ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "\N{EN DASH}": "--",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)
RANKING_FIGURES = ("95 % interval", "seeds", "steps", "behind", "95 % interval", "p")
LATEX_INTERVAL = "[{}, {}]"
EFFECT_FIGURES = ("95 % interval", "behind", "95 % interval", "p", "settings")


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
        sections.append(
            f"The runs have {len(compared)} different tests or metrics, which are not compared with each other."
        )
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
    yield markdown_table(ranking_head(comparison), ranking_rows(comparison))
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
        yield markdown_table(LEVEL_HEAD, effect_rows(main))
        yield " ".join(main.effects_summary)
    if tests := list(f_test_rows(main)):
        yield (
            "F-tests of main effects, and of interactions of two choices (A by B), with p adjusted by Holm's rule for "
            "all main effects, or for all interactions."
        )
        yield markdown_table(F_TEST_HEAD, tests)


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
    yield markdown_table(["rank", "setting", *counts], rows)


def has_no_attention(comparison: Comparison, setting: int) -> bool:
    """Whether a setting, by its index, is a baseline without attention."""
    return dict(zip(comparison.keys, comparison.settings[setting].values, strict=True)).get("attention") == "none"


def ranking_csv(compared: Sequence[Comparison]) -> str:
    """A row per setting with all metrics and costs; ``rank`` is by the main metric."""
    metrics = dict.fromkeys(ranking.metric.key for comparison in compared for ranking in comparison.rankings)
    keys: dict[str, None] = {}
    rows = []
    for comparison in compared:
        choices = [*comparison.keys, *comparison.chosen_keys]
        columns = [*choices, *comparison.columns[len(choices) :]]
        keys |= dict.fromkeys(columns)
        for rank, main_row in enumerate(comparison.rankings[0].rows if comparison.rankings else [], start=1):
            setting = main_row.setting
            fields = {"test": comparison.title, "rank": str(rank), **dict(zip(columns, setting.cells, strict=True))}
            fields["seeds"] = " ".join(str(run.seed) for run in setting.runs)
            fields["unfinished_seeds"] = " ".join(map(str, setting.unfinished_seeds))
            fields["folders"] = " ".join(str(run.path) for run in setting.runs)
            for ranking in comparison.rankings:
                columns_of = [f"{ranking.metric.key}{suffix}" for suffix in RANKING_SUFFIXES]
                for row in ranking.rows:
                    if row.setting_index == main_row.setting_index:
                        fields |= number_cells(columns_of, ranking.numbers(row))
            costs = {key: [run.results[key] for run in setting.runs if key in run.results] for key in COSTS}
            rows.append(fields | number_cells(COSTS, [fmean(values) if values else None for values in costs.values()]))
    figures = [f"{key}{suffix}" for key in metrics for suffix in RANKING_SUFFIXES]
    return csv_text(["test", "rank", *keys, "seeds", "unfinished_seeds", *figures, *COSTS, "folders"], rows)


def effects_csv(compared: Sequence[Comparison]) -> str:
    """A row per value of a choice, each with the F-test of the choice, and a row per interaction, by each metric."""
    rows = []
    for comparison in compared:
        for ranking in comparison.rankings:
            start = {"test": comparison.title, "metric": ranking.metric.key}
            for effect in ranking.effects:
                for level in effect.levels:
                    row = {"effect": "main", "choice": effect.name, "value": level.value}
                    row |= number_cells(LEVEL, (level.settings, level.mean, level.low, level.high))
                    row |= number_cells(DIFFERENCE, (level.difference or ())[:-1])
                    rows.append(start | row | number_cells(FTest._fields, effect.test or ()))
            for pair in ranking.interactions:
                row = {"effect": "interaction", "choice": " by ".join(pair.names)}
                rows.append(start | row | number_cells(FTest._fields, pair.test))
    return csv_text(EFFECT_COLUMNS, rows)


def number_cells(columns: Iterable[str], values: Sequence[float | None]) -> dict[str, str]:
    """Six significant digits of each value; none without values."""
    return {column: f"{value:.6g}" for column, value in zip(columns, values, strict=False) if value is not None}


def latex(compared: Sequence[Comparison]) -> str:
    r"""Two tables per comparison, the ranking and the main effects; they need ``\usepackage{booktabs}``."""
    tables: list[str] = []
    for comparison in compared:
        for main in comparison.rankings[:1]:
            tables.append("\n".join(_latex_ranking(comparison, main)))
            if main.effects:
                tables.append("\n".join(_latex_effects(comparison, main)))
    return "\n\n".join(tables) + "\n"


def _latex_ranking(comparison: Comparison, main: RankingAnalysis) -> Iterator[str]:
    keys, metric = comparison.columns, main.metric
    yield from (f"% {printable(sentence)}" for sentence in (comparison.title, *main.verdict))
    has_logarithms = main.scale.least is not None
    yield from _latex_head(keys, [metric.label, "sd", *(["mean of logs"] if has_logarithms else []), *RANKING_FIGURES])
    for rank, row in enumerate(main.rows):
        cells = [*row.setting.cells, metric.format(row.mean)]
        num_bold = len(cells) if rank == 0 and main.has_winner else 0
        low, high = row.interval or (None, None)
        cells += ["" if row.sd is None else metric.format(row.sd)]
        cells += [metric.format(main.scale_mean(row))] if has_logarithms else []
        cells += [metric.interval_cell(low, high, LATEX_INTERVAL), row.seed_count, steps_range(row.setting.runs)]
        yield _latex_line([*cells, *metric.difference_cells(row.difference, LATEX_INTERVAL)], num_bold)
    yield from (r"\bottomrule", r"\end{tabular}")


def _latex_effects(comparison: Comparison, main: RankingAnalysis) -> Iterator[str]:
    yield from (f"% {printable(text)}" for text in (f"{comparison.title}: main effects", *main.effects_summary))
    yield from _latex_head(("choice", "value"), [main.metric.label, *EFFECT_FIGURES])
    named = main.effects[0].name
    for place, (choice, *cells) in enumerate(effect_rows(main, LATEX_INTERVAL)):
        if choice != named:
            yield r"\midrule"
        yield _latex_line(["" if choice == named and place else choice, *cells])  # named once
        named = choice
    yield from (r"\bottomrule", r"\end{tabular}")


def _latex_head(words: Sequence[str], figures: Sequence[str]) -> Iterator[str]:
    """The beginning of a table: words are set to the left, figures to the right."""
    yield r"\begin{tabular}{" + "l" * len(words) + "r" * len(figures) + "}"
    yield r"\toprule"
    yield _latex_line([*words, *figures])
    yield r"\midrule"


def _latex_line(cells: Sequence[str], num_bold: int = 0) -> str:
    texts = [printable(cell).translate(ESCAPES) for cell in cells]
    line = " & ".join([*(rf"\textbf{{{text}}}" for text in texts[:num_bold]), *texts[num_bold:]])
    # The end of the row above would take brackets for its argument.
    return ("{}" if line.startswith("[") else "") + line + r" \\"

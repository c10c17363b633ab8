"""The ranking and the effects of choices as CSV, and as LaTeX tables for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from attnx.files.printable import csv_text, printable
from attnx.reports.stats.analysis_of_variance import FTest
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis
from attnx.reports.sweep.markdown import effect_rows
from attnx.reports.sweep.metrics import COSTS
from attnx.reports.sweep.run_record import steps_range

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
    yield from _head(keys, [metric.label, "sd", *(["mean of logs"] if has_logarithms else []), *RANKING_FIGURES])
    for rank, row in enumerate(main.rows):
        words = [*row.setting.cells, metric.format(row.mean)]
        low, high = row.interval or (None, None)
        figures = ["" if row.sd is None else metric.format(row.sd)]
        figures += [metric.format(main.scale_mean(row))] if has_logarithms else []
        figures += [metric.interval_cell(low, high, LATEX_INTERVAL)]
        figures += [row.seed_count, steps_range(row.setting.runs)]
        figures += metric.difference_cells(row.difference, LATEX_INTERVAL)
        cells = [_escape(cell) for cell in (*words, *figures)]
        if rank == 0 and main.has_winner:
            cells[: len(words)] = [rf"\textbf{{{cell}}}" for cell in cells[: len(words)]]
        yield _line(cells)
    yield from (r"\bottomrule", r"\end{tabular}")


def _latex_effects(comparison: Comparison, main: RankingAnalysis) -> Iterator[str]:
    yield from (f"% {printable(text)}" for text in (f"{comparison.title}: main effects", *main.effects_summary))
    yield from _head(("choice", "value"), [main.metric.label, *EFFECT_FIGURES])
    named = main.effects[0].name
    for place, (choice, *cells) in enumerate(effect_rows(main, LATEX_INTERVAL)):
        if choice != named:
            yield r"\midrule"
        yield _line([_escape(cell) for cell in ("" if choice == named and place else choice, *cells)])  # named once
        named = choice
    yield from (r"\bottomrule", r"\end{tabular}")


def _head(words: Sequence[str], figures: Sequence[str]) -> Iterator[str]:
    """The beginning of a table: words are set to the left, figures to the right."""
    yield r"\begin{tabular}{" + "l" * len(words) + "r" * len(figures) + "}"
    yield r"\toprule"
    yield _line([_escape(cell) for cell in (*words, *figures)])
    yield r"\midrule"


def _line(cells: Iterable[str]) -> str:
    text = " & ".join(cells)
    # The end of the row above would take brackets for its argument.
    return ("{}" if text.startswith("[") else "") + text + r" \\"


def _escape(text: str) -> str:
    return printable(text).translate(ESCAPES)

"""The ranking and the main effects as LaTeX tables for a paper, by the main metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attnx.files.printable import printable
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis
from attnx.reports.sweep.conclusions import p_value
from attnx.reports.sweep.effects import Effect
from attnx.reports.sweep.metrics import Metric
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.ranking_tables import seed_count
from attnx.reports.sweep.run_record import steps_range

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
RANKING_FIGURES = ("sd", "95 % interval", "seeds", "steps", "behind", "95 % interval", "p")
FOOT = (r"\bottomrule", r"\end{tabular}")
EFFECT_HEAD = ("choice", "value")
EFFECT_FIGURES = ("95 % interval", "behind", "95 % interval", "p", "settings")


def latex(compared: Sequence[Comparison]) -> str:
    r"""Two tables per comparison, the ranking and the main effects; they need ``\usepackage{booktabs}``."""
    tables: list[str] = []
    for comparison in compared:
        for main in comparison.rankings[:1]:
            tables.append("\n".join(_ranking(comparison, main)))
            if main.effects:
                tables.append("\n".join(_effects(comparison, main)))
    return "\n\n".join(tables) + "\n"


def _ranking(comparison: Comparison, main: RankingAnalysis) -> Iterator[str]:
    keys = comparison.columns
    yield from _comments([comparison.title, *main.verdict])
    yield from _head(keys, [main.metric.label, *RANKING_FIGURES])
    for rank, row in enumerate(main.rows):
        cells = list(map(_escape, _ranking_cells(comparison, main.metric, row)))
        if rank == 0 and main.has_winner:
            cells[: len(keys) + 1] = [rf"\textbf{{{cell}}}" for cell in cells[: len(keys) + 1]]
        yield _line(cells)
    yield from FOOT


def _ranking_cells(comparison: Comparison, metric: Metric, row: RankedSetting) -> list[str]:
    setting = comparison.settings[row.setting]
    sd = "" if row.sd is None else metric.format(row.sd)
    cells = [*setting.cells, metric.format(row.mean), sd, _interval(row.interval, metric)]
    return [*cells, seed_count(row, setting), steps_range(setting.runs), *_difference_cells(row.difference, metric)]


def _effects(comparison: Comparison, main: RankingAnalysis) -> Iterator[str]:
    yield from _comments([f"{comparison.title}: main effects", *main.effects_summary])
    yield from _head(EFFECT_HEAD, [main.metric.label, *EFFECT_FIGURES])
    for index, effect in enumerate(main.effects):
        if index:
            yield r"\midrule"
        yield from (_line(map(_escape, cells)) for cells in _effect_cells(effect, main.metric))
    yield from FOOT


def _effect_cells(effect: Effect, metric: Metric) -> Iterator[list[str]]:
    """The cells of each value of a choice; the choice is named once."""
    for index, level in enumerate(effect.levels):
        mean = "" if level.mean is None else metric.format(level.mean)
        interval = None if level.low is None or level.high is None else (level.low, level.high)
        cells = ["" if index else effect.name, level.value, mean, _interval(interval, metric)]
        yield [*cells, *_difference_cells(level.difference, metric), str(level.settings)]


def _difference_cells(difference: MeanDifference | None, metric: Metric) -> list[str]:
    if difference is None:
        return ["", "", ""]
    interval = _interval((difference.low, difference.high), metric)
    return [metric.format(difference.difference), interval, p_value(difference.p)]


def _interval(interval: tuple[float, float] | None, metric: Metric) -> str:
    return "" if interval is None else f"[{metric.format(interval[0])}, {metric.format(interval[1])}]"


def _comments(sentences: Iterable[str]) -> Iterator[str]:
    return (f"% {printable(sentence)}" for sentence in sentences)


def _head(words: Sequence[str], figures: Sequence[str]) -> Iterator[str]:
    """The beginning of a table: words are set to the left, figures to the right."""
    yield r"\begin{tabular}{" + "l" * len(words) + "r" * len(figures) + "}"
    yield r"\toprule"
    yield _line(map(_escape, [*words, *figures]))
    yield r"\midrule"


def _line(cells: Iterable[str]) -> str:
    text = " & ".join(cells)
    # The end of the row above would take brackets for its argument.
    return ("{}" if text.startswith("[") else "") + text + r" \\"


def _escape(text: str) -> str:
    return printable(text).translate(ESCAPES)

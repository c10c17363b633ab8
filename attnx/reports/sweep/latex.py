r"""The ranking as LaTeX tables with booktabs; the winner, if there is one, is bold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attnx.files.printable import printable
from attnx.reports.sweep.comparison import Comparison, MetricComparison
from attnx.reports.sweep.conclusions import has_winner, p_value
from attnx.reports.sweep.conditions import steps_range
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import short_keys

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
FIGURES = ("sd", "95 % interval", "seeds", "steps", "behind", "95 % interval", "p")


def latex(compared: Sequence[Comparison]) -> str:
    r"""A table per comparison, by its main metric; it needs ``\usepackage{booktabs}``."""
    tables = ("\n".join(_table(comparison, comparison.metrics[0])) for comparison in compared if comparison.metrics)
    return "\n\n".join(tables) + "\n"


def _table(comparison: Comparison, main: MetricComparison) -> Iterator[str]:
    keys = short_keys(comparison.keys)
    for sentence in [comparison.title, *main.verdict]:
        yield f"% {printable(sentence)}"
    yield r"\begin{tabular}{" + "l" * len(keys) + "r" * (1 + len(FIGURES)) + "}"
    yield r"\toprule"
    yield _line(map(_escape, [*keys, main.measure.label, *FIGURES]))
    yield r"\midrule"
    for rank, row in enumerate(main.rows):
        cells = list(map(_escape, _cells(comparison, main.measure, row)))
        if rank == 0 and has_winner(main.rows, main.pooled):
            cells[: len(keys) + 1] = [rf"\textbf{{{cell}}}" for cell in cells[: len(keys) + 1]]
        yield _line(cells)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _cells(comparison: Comparison, measure: Measure, row: RankedSetting) -> list[str]:
    setting, difference = comparison.settings[row.setting], row.difference
    sd = "" if row.sd is None else measure.format(row.sd)
    cells = [*setting.values, measure.format(row.mean), sd, _interval(row.interval, measure)]
    cells += [str(len(row.values)), steps_range(setting.runs)]
    if difference is None:
        return [*cells, "", "", ""]
    interval = _interval((difference.low, difference.high), measure)
    return [*cells, measure.format(difference.difference), interval, p_value(difference.p)]


def _interval(interval: tuple[float, float] | None, measure: Measure) -> str:
    return "" if interval is None else f"[{measure.format(interval[0])}, {measure.format(interval[1])}]"


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escape(text: str) -> str:
    return printable(text).translate(ESCAPES)

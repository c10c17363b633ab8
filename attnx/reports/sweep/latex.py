r"""The ranking as LaTeX tables for a paper, ruled by booktabs: the winner is bold, and only if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnx.files.printable import printable
from attnx.reports.sweep.comparison import Comparison, MetricComparison
from attnx.reports.sweep.conclusions import is_won, p_value
from attnx.reports.sweep.conditions import steps_of
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import short

# What LaTeX reads as commands, and how it is written as text.
ESCAPED = str.maketrans(
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
    r"""A table of each comparison, by its main measure; a paper reads them with ``\usepackage{booktabs}``."""
    return "\n\n".join("\n".join(_table(one, one.judged[0])) for one in compared if one.judged) + "\n"


def _table(one: Comparison, main: MetricComparison) -> Iterator[str]:
    keys = short(one.keys)
    for sentence in [one.title, *main.verdict]:
        yield f"% {printable(sentence)}"
    yield r"\begin{tabular}{" + "l" * len(keys) + "r" * (1 + len(FIGURES)) + "}"
    yield r"\toprule"
    yield _line([*keys, main.measure.label, *FIGURES])
    yield r"\midrule"
    for rank, row in enumerate(main.rows):
        cells = list(map(_escaped, _cells(one, main.measure, row)))
        if rank == 0 and is_won(main.rows, main.spread):
            cells[: len(keys) + 1] = [rf"\textbf{{{cell}}}" for cell in cells[: len(keys) + 1]]
        yield " & ".join(cells) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _cells(one: Comparison, measure: Measure, row: RankedSetting) -> list[str]:
    setting, gap = one.settings[row.place], row.behind
    measured = [
        measure.said(row.mean),
        "" if row.sd is None else measure.said(row.sd),
        _interval(row.interval, measure),
    ]
    behind = (
        [measure.said(gap.difference), _interval((gap.low, gap.high), measure), p_value(gap.p)] if gap else [""] * 3
    )
    return [*setting.values, *measured, str(len(row.values)), steps_of(setting.runs), *behind]


def _interval(interval: tuple[float, float] | None, measure: Measure) -> str:
    return "" if interval is None else f"[{measure.said(interval[0])}, {measure.said(interval[1])}]"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(_escaped, cells)) + r" \\"


def _escaped(text: str) -> str:
    return printable(text).translate(ESCAPED)

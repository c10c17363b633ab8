"""The ranking as CSV, a row per setting with all metrics and costs, and as LaTeX tables by the main metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from attnx.files.printable import printable
from attnx.reports.sweep.comparison import Comparison, MetricComparison
from attnx.reports.sweep.conclusions import STEPS, p_value
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.page_data import COSTS
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.settings import short_keys

SUFFIXES = ("", "_sd", "_low", "_high", "_behind", "_behind_low", "_behind_high", "_p")
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


def spreadsheet(compared: Sequence[Comparison]) -> str:
    """The CSV text; ``rank`` is by the main metric."""
    keys = list(dict.fromkeys(key for comparison in compared for key in comparison.keys))
    metrics = dict.fromkeys(metric.measure.key for comparison in compared for metric in comparison.metrics)
    figures = [f"{key}{suffix}" for key in metrics for suffix in SUFFIXES]
    text = io.StringIO()
    head = ["test", "rank", *keys, "seeds", *figures, *COSTS, "folders"]
    writer = csv.DictWriter(text, head, restval="", lineterminator="\n")
    writer.writeheader()
    for comparison in compared:
        for rank, row in enumerate(comparison.metrics[0].rows if comparison.metrics else [], start=1):
            writer.writerow({"test": comparison.title, "rank": rank, **_fields(comparison, row.setting)})
    return text.getvalue()


def _fields(comparison: Comparison, index: int) -> dict[str, str]:
    setting = comparison.settings[index]
    fields = dict(zip(comparison.keys, setting.values, strict=True))
    fields["seeds"] = " ".join(str(run.seed) for run in setting.runs)
    fields["folders"] = " ".join(str(run.path) for run in setting.runs)
    for metric in comparison.metrics:
        for row in metric.rows:
            if row.setting == index:
                fields |= _figures(metric.measure.key, row)
    costs = {key: [run.results[key] for run in setting.runs if key in run.results] for key in COSTS}
    return fields | {key: f"{fmean(values):.6g}" for key, values in costs.items() if values}


def _figures(key: str, row: RankedSetting) -> dict[str, str]:
    low, high = row.interval or (None, None)
    difference = row.difference[:-1] if row.difference else [None] * 4
    values = zip(SUFFIXES, [row.mean, row.sd, low, high, *difference], strict=True)
    return {f"{key}{suffix}": f"{value:.6g}" for suffix, value in values if value is not None}


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
        if rank == 0 and main.has_winner:
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


def steps_range(runs: Sequence[RunRecord]) -> str:
    """The training steps of runs as text: one number, or the least and the most."""
    counts = sorted({int(run.results[STEPS]) for run in runs if STEPS in run.results})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([*counts[:1], *counts[-1:]]))


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escape(text: str) -> str:
    return printable(text).translate(ESCAPES)

"""Quality against cost: the settings that no other one beats in both, in a table and in a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from attnx.errors import UserError, suggest
from attnx.files.printable import markdown_table
from attnx.reports.significant_digits import format_count
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.metrics import COSTS
from attnx.runs.results import MEASURED

# Short names of costs; a decoded token is one after 2,048 positions.
AGAINST = {
    "flops": "train_flops",
    "state": "state_bytes_2048",
    "latency": "decode_ms_2048",
    "parameters": "parameters",
}
MORE_IS_CHEAPER = ("train_examples_per_second",)
MIN_LOG_RATIO = 3.0  # of costs, from which their axis is logarithmic
MEASURING = "`attnx cost FOLDER` measures it"
HEAD = ("cost", "mean", "95 % interval", "seeds")
DPI, INK, PALE, FRONT = 150, "#333333", "#bbbbbb", "#08519c"


class CostPoint(NamedTuple):
    """A setting: its cost and its main metric, the means over its seeds, and the 95 % interval of the metric."""

    name: str
    cost: float
    mean: float
    interval: tuple[float, float] | None
    seeds: str
    is_ahead: bool  # no other setting is as good and cheaper, or as cheap and better


def parse_cost(word: str) -> str:
    """The name of a cost in results: of ``flops``, ``state``, ``latency``, ``parameters``, or any other one's.

    Raises:
        UserError: there is none.
    """
    key = AGAINST.get(word, word)
    if key not in COSTS:
        raise UserError(f"--against {word}: no such cost{suggest(word, [*AGAINST, *COSTS])}")
    return key


def cost_points(comparison: Comparison, key: str) -> list[CostPoint]:
    """The settings that have a cost, the cheapest first, by the main metric, which the comparison must have."""
    main = comparison.rankings[0]
    points = []
    for row in main.rows:
        if costs := [run.results[key] for run in row.runs if key in run.results]:
            mean, seeds = main.scale_mean(row), row.seed_count
            points.append(CostPoint(row.setting.name, fmean(costs), mean, row.interval, seeds, is_ahead=False))
    cheap, good = -1 if key in MORE_IS_CHEAPER else 1, -1 if main.metric.is_higher_better else 1

    def is_beaten(one: CostPoint) -> bool:
        return any(
            cheap * other.cost <= cheap * one.cost
            and good * other.mean <= good * one.mean
            and (other.cost, other.mean) != (one.cost, one.mean)
            for other in points
        )

    return sorted(
        (point._replace(is_ahead=not is_beaten(point)) for point in points), key=lambda point: cheap * point.cost
    )


def front_section(comparison: Comparison, key: str) -> Iterator[str]:
    """The settings on the front, the cheapest first, in Markdown; or which command measures what is missing."""
    main, label = comparison.rankings[0], COSTS[key]
    points = cost_points(comparison, key)
    yield f"### {main.metric.label} against {label}"
    advice = f"; {MEASURING}" if key.startswith(MEASURED) else ""
    if not points:
        yield f"No run has it{advice}."
        return
    if missing := len(main.rows) - len(points):
        yield f"{missing} of {len(main.rows)} settings have no such number{advice}."
    yield "No other setting is as good and cheaper than one of these, or as cheap and better:"
    rows = []
    for point in (point for point in points if point.is_ahead):
        interval = main.metric.interval_cell(*(point.interval or (None, None)))
        rows.append([point.name, format_count(point.cost), main.metric.format(point.mean), interval, point.seeds])
    yield markdown_table(["setting", *HEAD], rows)


def matched_sentence(comparison: Comparison) -> Iterator[str]:
    """How far apart the costs are that ``match`` made equal; nothing without it."""
    match = comparison.constant.get("match", "")
    costs = [point.cost for point in cost_points(comparison, AGAINST[match])] if match in AGAINST else []
    if costs:
        low, high, what = min(costs), max(costs), COSTS[AGAINST[match]]
        apart = f"{low:,.0f} to {high:,.0f}" + (f", {100 * (high / low - 1):.1f} % apart" if low else "")
        yield f"Widths were solved for equal {what} (match={match}): {apart}."


def draw_front(comparison: Comparison, key: str, path: Path) -> Path | None:
    """Draw all settings, those of the front joined and numbered, with names below; None if no setting has the cost."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    from attnx.reports.figures.curves import style_axes
    from attnx.reports.figures.heatmaps import save_figure

    if not (points := cost_points(comparison, key)):
        return None
    figure = Figure(figsize=(6.4, 4.6), dpi=DPI)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    for point in points:
        color = FRONT if point.is_ahead else PALE
        if point.interval:
            axes.vlines(point.cost, *point.interval, color=color, linewidth=1)  # the ends of the interval
        axes.plot(point.cost, point.mean, "o", color=color, markersize=5)
    ahead = [point for point in points if point.is_ahead]
    axes.plot([point.cost for point in ahead], [point.mean for point in ahead], color=FRONT, linewidth=1)
    for number, point in enumerate(ahead, start=1):
        where = point.cost, point.mean
        axes.annotate(str(number), where, xytext=(5, 5), textcoords="offset points", fontsize=9, color=INK)
    costs = [point.cost for point in points]
    if min(costs) > 0 and max(costs) / min(costs) >= MIN_LOG_RATIO:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda cost, _: format_count(cost))
    names = "\n".join(f"{number}  {point.name}" for number, point in enumerate(ahead, start=1))
    figure.supxlabel(names, x=0.02, ha="left", fontsize=8, color=INK)
    axes.set_xlabel(COSTS[key], color=INK)
    axes.set_ylabel(comparison.rankings[0].metric.label, color=INK)
    style_axes(axes, label_size=8)
    return save_figure(figure, path)

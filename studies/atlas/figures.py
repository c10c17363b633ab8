"""The pictures of docs/which-attention.md, from the report of results.csv."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.reports.sweep.comparison import Comparison, LengthRates
from attnx.reports.sweep.effects import Effect, factors, has_factors, repeated_settings, restrict
from attnx.reports.sweep.metrics import Metric
from studies.atlas.changes import find_baseline

BLUE, GRAY, PALE, ORANGE = "#1f68ad", "#8a939d", "#c9ced4", "#d95f0e"
CPU_SECONDS, MEMORY = "train_cpu_seconds", "peak_memory_mb"


class CostPoint(NamedTuple):
    """A setting: CPU seconds of training, the mean of the metric, peak memory in MB, and its name."""

    cpu_seconds: float
    mean: float
    memory: float
    name: str


def estimated_effects(comparison: Comparison) -> list[Effect]:
    """The main effects of which two values or more have a mean."""
    effects = comparison.rankings[0].effects
    return [effect for effect in effects if sum(level.mean is not None for level in effect.levels) > 1]


def draw_main_effects(comparison: Comparison) -> Figure:
    """The mean of each value of each estimated factor with its 95 % interval, a panel a factor; at least one."""
    main, effects = comparison.rankings[0], estimated_effects(comparison)
    heights = [len(effect.levels) + 1 for effect in effects]
    figure = Figure(figsize=(7, 0.22 * sum(heights) + 0.4), layout="constrained")
    panels = figure.subplots(len(effects), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, effect in zip(panels, effects, strict=True):
        _draw_effect(axes, effect, main.metric.is_higher_better)
    panels[-1].set_xlabel(f"{main.metric.label}{f', {main.metric.unit}' if main.metric.unit else ''}")
    return figure


def _draw_effect(axes: Axes, effect: Effect, is_higher_better: bool) -> None:
    """The levels of an effect, the best one on top."""
    levels = [(level.mean, level) for level in effect.levels if level.mean is not None]
    levels.sort(key=lambda pair: pair[0], reverse=not is_higher_better)
    colors = [GRAY] * (len(levels) - 1) + [BLUE]
    for row, ((mean, level), color) in enumerate(zip(levels, colors, strict=True)):
        if level.low is not None and level.high is not None:
            axes.plot([level.low, level.high], [row, row], color=color, linewidth=2)
        axes.plot(mean, row, "o", color=color, markersize=5)
    axes.set_yticks(range(len(levels)), [level.value for _, level in levels], fontsize=8)
    axes.set_ylim(-0.7, len(levels) - 0.3)
    axes.set_title(effect.name, loc="left", fontsize=9, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


class Grid(NamedTuple):
    """The mean of each combination of scorers and scopes, (scopes, scorers), the best ones first."""

    scorers: list[str]
    scopes: list[str]
    means: NDArray[np.float64]


def scorer_by_scope(comparison: Comparison, default: int) -> Grid | None:
    """The combinations of scorer and scope whose other choices are those of a setting, by its index.

    None if not all combinations were trained.
    """
    main, compared = comparison.rankings[0], factors(comparison.keys, comparison.settings)
    pair = [next(factor for factor in compared if factor.name.startswith(kind)) for kind in ("scorer", "scope")]
    fixed = [factor for factor in compared if factor not in pair]
    means = {
        row.setting_index: row.mean
        for row in main.rows
        if has_factors(row.setting_index, compared)
        and all(factor.indices[row.setting_index] == factor.indices[default] for factor in fixed)
    }
    crossed = repeated_settings(list(means), pair)
    scorer, scope = (restrict([factor], crossed) for factor in pair)
    if not (scorer and scope) or len(crossed) < len(scorer[0].values) * len(scope[0].values):
        return None
    table = np.empty((len(scope[0].values), len(scorer[0].values)))
    for setting in crossed:
        table[scope[0].indices[setting], scorer[0].indices[setting]] = means[setting]
    sign = -1 if main.metric.is_higher_better else 1
    rows, columns = (np.argsort(sign * table.mean(axis)) for axis in (1, 0))
    return Grid(
        [scorer[0].values[column] for column in columns],
        [scope[0].values[row] for row in rows],
        table[rows][:, columns],
    )


def draw_grid(grid: Grid, metric: Metric) -> Figure:
    """A heat map of the combinations with their means, the best ones dark and at the upper left."""
    figure = Figure(figsize=(7, 0.36 * len(grid.scopes) + 1.4), layout="constrained")
    axes = figure.subplots()
    quality = grid.means if metric.is_higher_better else -grid.means
    axes.imshow(quality, cmap="Blues", aspect="auto")
    middle = (quality.min() + quality.max()) / 2
    for (row, column), mean in np.ndenumerate(grid.means):
        color = "white" if quality[row, column] > middle else "black"
        axes.text(column, row, metric.format(mean), ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks(range(len(grid.scorers)), grid.scorers, rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(grid.scopes)), grid.scopes, fontsize=8)
    axes.set_title(f"{metric.label}, mean of the seeds", loc="left", fontsize=9, fontweight="bold")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def draw_cost(comparison: Comparison) -> Figure:
    """Quality against CPU time, a dot a setting; the settings that none is better and cheaper than have numbers."""
    main = comparison.rankings[0]
    points = cost_points(comparison)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter([point.cpu_seconds for point in points], [point.mean for point in points], s=12, color=GRAY)
    for rank, point in enumerate(pareto_front(points, main.metric.is_higher_better), start=1):
        axes.plot(point.cpu_seconds, point.mean, "o", color=ORANGE, markersize=6)
        axes.annotate(str(rank), (point.cpu_seconds, point.mean), xytext=(3, 5), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xlabel("CPU time of training, s")
    axes.set_ylabel(main.metric.label)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_lengths(comparison: Comparison, rates: LengthRates, default: int) -> Figure:
    """The error rate by source length: of the default, by its index, of no attention, and a thin line each other."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes, columns = figure.subplots(), range(len(rates.groups))
    for by_group in rates.rates.values():
        axes.plot(columns, by_group, color=PALE, linewidth=0.6)
    baseline = find_baseline(comparison)
    lines = [("attnx's defaults", BLUE, default)]
    lines += [] if baseline is None else [("without attention", ORANGE, baseline.setting_index)]
    for label, color, setting in lines:
        axes.plot(columns, rates.rates[setting], "o-", color=color, linewidth=2, markersize=4, label=label)
    axes.plot([], [], color=PALE, label="each other setting")
    axes.set_xticks(columns, rates.labels)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("source symbols")
    axes.set_ylabel(f"{rates.label}, %")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def cost_points(comparison: Comparison) -> list[CostPoint]:
    """The settings whose runs have their CPU time, means over seeds."""
    points = []
    for row in comparison.rankings[0].rows:
        setting = row.setting
        seconds = [run.results[CPU_SECONDS] for run in setting.runs if CPU_SECONDS in run.results]
        memory = [run.results[MEMORY] for run in setting.runs]
        if seconds:
            points.append(CostPoint(fmean(seconds), row.mean, fmean(memory), setting.name))
    return points


def pareto_front(points: Sequence[CostPoint], is_higher_better: bool) -> list[CostPoint]:
    """The points that no other one is both cheaper and better than, the cheapest first."""
    sign = -1 if is_higher_better else 1
    front: list[CostPoint] = []
    for point in sorted(points, key=lambda point: (point.cpu_seconds, sign * point.mean)):
        if not front or sign * point.mean < sign * front[-1].mean:
            front.append(point)
    return front

"""The pictures of docs/which-attention.md that the confirmation draws: one a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from attnx.config.suite_file import read_suite
from attnx.reports.sweep.ranking import Ranking
from studies.atlas.figures import BLUE, GRAY, ORANGE
from studies.confirm.comparisons import LINEAR_MAP, read_runs
from studies.confirm.page import rank_tasks


def draw_tasks(study: Path) -> Iterator[str | Figure]:
    """A heading and a picture for each task of which two settings have counted runs, from the folder of the study."""
    suites = [read_suite(str(file)) for file in sorted((study / "suites").glob("*.yaml"))]
    runs = read_runs(sorted((study / "results").glob("*.csv")), suites)
    for task, ranking in rank_tasks(suites, runs).items():
        if len(ranking.rows) > 1:
            yield f"#### {task}"
            linear = runs.get((task, LINEAR_MAP))
            yield draw_task(ranking, linear[0].results["test_mse"] if linear else None)


def draw_task(ranking: Ranking, linear_error: float | None = None) -> Figure:
    """Each setting's seeds, mean and 95 % interval, the best one on top.

    Those that cannot be told from the best are blue. A line shows the error of a linear map, if there is one.
    """
    metric, equals = ranking.metric, {row.setting_index for row in [ranking.rows[0], *ranking.undecided]}
    figure = Figure(figsize=(7, 0.3 * len(ranking.rows) + 0.9), layout="constrained")
    axes, names = figure.subplots(), []
    for place, row in enumerate(ranking.rows):
        values, color = [*row.values.values()], BLUE if row.setting_index in equals else GRAY
        axes.plot(values, [place] * len(values), "o", color=color, alpha=0.3, markersize=4, markeredgewidth=0)
        if row.interval is not None:
            axes.plot(row.interval, [place, place], color=color, linewidth=2)
        axes.plot(ranking.scale_mean(row), place, "o", color=color, markersize=6)
        names.append(row.setting.name)
    if linear_error is not None:
        axes.axvline(linear_error, color=ORANGE, linestyle="--", linewidth=1, label=LINEAR_MAP)
        axes.legend(frameon=False, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(f"{metric.label}{f', {metric.unit}' if metric.unit else ''}")
    axes.spines[["top", "right"]].set_visible(False)
    return figure

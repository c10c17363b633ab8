"""Whether the ranking of the scorers is one learning rate's: the metric of each scorer at each rate, of one seed."""

from __future__ import annotations

from attnx.reports.sweep.comparison import Comparison
from studies.atlas.changes import choices_of, rows_by_choices
from studies.atlas.design import Task
from studies.results import RATE, setting_choices


def rate_table(task: Task, comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """The head and a row for each scorer, with its value at each rate, the best of a rate bold; no rows without rates.

    All values are of the seed that the further rates are trained with, the first one.
    """
    if not task.rates or RATE not in comparison.keys:
        return [], []
    main, rows = comparison.rankings[0], rows_by_choices(comparison)
    default = choices_of(task, task.default, comparison)[RATE]
    rates = sorted({default, *(setting_choices(setting)[RATE] for setting in task.rates)}, key=float)
    columns: dict[str, dict[str, float]] = {rate: {} for rate in rates}
    scorers = {_scorer(setting): choices_of(task, setting[:-1], comparison) for setting in task.rates}
    for scorer, choices in scorers.items():
        for rate, column in columns.items():
            if (row := rows.get(frozenset({**choices, RATE: rate}.items()))) is not None:
                column[scorer] = row.values[min(row.values)]
    choose = max if main.metric.is_higher_better else min
    best = {rate: choose(column, key=column.__getitem__, default=None) for rate, column in columns.items()}

    def cell(scorer: str, rate: str) -> str:
        text = main.metric.format(columns[rate][scorer]) if scorer in columns[rate] else ""
        return f"**{text}**" if scorer == best[rate] else text

    return ["scorer", *(f"rate {rate}" for rate in rates)], [
        [f"`{scorer}`", *(cell(scorer, rate) for rate in rates)] for scorer in scorers
    ]


def _scorer(setting: tuple[str, ...]) -> str:
    return " ".join(word for word in setting if word.startswith("scorer"))

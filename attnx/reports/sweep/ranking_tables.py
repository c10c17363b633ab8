"""The ranking as CSV, a row per setting with all metrics and costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from attnx.files.csv_text import csv_text
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.page_data import COSTS
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import Setting

SUFFIXES = ("", "_sd", "_low", "_high", "_behind", "_behind_low", "_behind_high", "_p")


def spreadsheet(compared: Sequence[Comparison]) -> str:
    """The CSV text; ``rank`` is by the main metric."""
    keys = list(dict.fromkeys(key for comparison in compared for key in _columns(comparison)))
    metrics = dict.fromkeys(ranking.metric.key for comparison in compared for ranking in comparison.rankings)
    figures = [f"{key}{suffix}" for key in metrics for suffix in SUFFIXES]
    columns = ["test", "rank", *keys, "seeds", "unfinished_seeds", *figures, *COSTS, "folders"]
    rows = (
        {"test": comparison.title, "rank": str(rank), **_fields(comparison, row.setting)}
        for comparison in compared
        for rank, row in enumerate(comparison.rankings[0].rows if comparison.rankings else [], start=1)
    )
    return csv_text(columns, rows)


def _columns(comparison: Comparison) -> list[str]:
    """As the comparison's, with complete keys."""
    keys = [*comparison.keys, *comparison.chosen_keys]
    return [*keys, *comparison.columns[len(keys) :]]


def _fields(comparison: Comparison, index: int) -> dict[str, str]:
    setting = comparison.settings[index]
    fields = dict(zip(_columns(comparison), setting.cells, strict=True))
    fields["seeds"] = " ".join(str(run.seed) for run in setting.runs)
    fields["unfinished_seeds"] = " ".join(map(str, setting.unfinished_seeds))
    fields["folders"] = " ".join(str(run.path) for run in setting.runs)
    for ranking in comparison.rankings:
        for row in ranking.rows:
            if row.setting == index:
                fields |= _figures(ranking.metric.key, row)
    costs = {key: [run.results[key] for run in setting.runs if key in run.results] for key in COSTS}
    return fields | {key: f"{fmean(values):.6g}" for key, values in costs.items() if values}


def _figures(key: str, row: RankedSetting) -> dict[str, str]:
    low, high = row.interval or (None, None)
    difference = row.difference[:-1] if row.difference else [None] * 4
    values = zip(SUFFIXES, [row.mean, row.sd, low, high, *difference], strict=True)
    return {f"{key}{suffix}": f"{value:.6g}" for suffix, value in values if value is not None}


def seed_count(row: RankedSetting, setting: Setting) -> str:
    """How many seeds have a value, and of how many if some have none: ``2 of 3``."""
    total = setting.num_seeds
    return str(total) if len(row.values) == total else f"{len(row.values)} of {total}"

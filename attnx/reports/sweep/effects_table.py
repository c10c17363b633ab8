"""The effects of choices as CSV: a row per value of a choice, and a row per interaction, by each metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnx.files.csv_text import csv_text
from attnx.reports.stats.analysis_of_variance import FTest
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis
from attnx.reports.sweep.effects import Effect, Interaction

LEVEL = ("settings", "mean", "low", "high")
DIFFERENCE = ("behind", "behind_low", "behind_high", "behind_p")
COLUMNS = ("test", "metric", "effect", "choice", "value", *LEVEL, *DIFFERENCE, *FTest._fields)


def effects_spreadsheet(compared: Sequence[Comparison]) -> str:
    """The CSV text; F-tests are those of choices, repeated for each value, and of interactions."""
    rows = (
        {"test": comparison.title, "metric": ranking.metric.key} | row
        for comparison in compared
        for ranking in comparison.rankings
        for row in _rows(ranking)
    )
    return csv_text(COLUMNS, rows)


def _rows(ranking: RankingAnalysis) -> Iterator[dict[str, str]]:
    for effect in ranking.effects:
        yield from _level_rows(effect)
    yield from map(_interaction_row, ranking.interactions)


def _level_rows(effect: Effect) -> Iterator[dict[str, str]]:
    for level in effect.levels:
        row = {"effect": "main", "choice": effect.name, "value": level.value, "settings": str(level.settings)}
        row |= _figures(LEVEL[1:], (level.mean, level.low, level.high)) | _figures(FTest._fields, effect.test or ())
        yield row | _figures(DIFFERENCE, level.difference[:-1] if level.difference else ())


def _interaction_row(pair: Interaction) -> dict[str, str]:
    row = {"effect": "interaction", "choice": " by ".join(pair.names)}
    return row | _figures(FTest._fields, pair.test)


def _figures(columns: Sequence[str], values: Sequence[float | None]) -> dict[str, str]:
    """Six significant digits of each value; none without values."""
    return {column: f"{value:.6g}" for column, value in zip(columns, values, strict=False) if value is not None}

"""Groups runs into comparisons, one per test, and ranks settings by each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from attnx.config.changes import default_choice
from attnx.config.view import choice_text, value_text
from attnx.files.parse_number import count_phrase
from attnx.reports.sweep.conclusions import (
    amount,
    choice_in_validation,
    conclude,
    other_metrics,
    p_text,
    training_ended_early,
    unequal_conditions,
)
from attnx.reports.sweep.effects import Effect, Effects, Interaction, effects
from attnx.reports.sweep.factors import Factor, factors
from attnx.reports.sweep.length_rates import LengthRates, length_rates
from attnx.reports.sweep.metrics import list_metrics
from attnx.reports.sweep.ranking import Ranking, rank_settings
from attnx.reports.sweep.run_record import DATA, RunRecord
from attnx.reports.sweep.settings import Setting, group_by_setting, varied_keys
from attnx.runs.status import RunStatus


@dataclass
class RankingAnalysis(Ranking):
    """Settings by one metric, with sentences on the best, and the effects of the factors.

    The effects are computed when they are first read, since their p-values take longest of all in a report.
    """

    verdict: list[str] = field(default_factory=list)
    factors: Sequence[Factor] = ()

    @cached_property
    def _effects(self) -> Effects:
        return effects(self.factors, self)

    @property
    def effects(self) -> list[Effect]:
        """Main effects, the largest first."""
        return self._effects.main

    @property
    def interactions(self) -> list[Interaction]:
        """Interactions of two factors, the most significant first."""
        return self._effects.interactions

    @property
    def effects_summary(self) -> list[str]:
        """Sentences about both."""
        return self._effects.summary


class Comparison(NamedTuple):
    """Runs with the same test data, by the choices in which they differ (``keys``) and agree (``constant``).

    ``superseded`` is the number of runs left out, since a later one has the same setting and seed. The ranking
    by the main metric comes first; ``length_rates`` are of its settings.
    """

    title: str
    keys: list[str]
    constant: dict[str, str]
    settings: list[Setting]
    rankings: list[RankingAnalysis]
    superseded: int
    length_rates: LengthRates | None

    @property
    def heading(self) -> str:
        """The title with a capital letter."""
        return f"{self.title[0].upper()}{self.title[1:]}"


def comparisons(records: Sequence[RunRecord]) -> list[Comparison]:
    """All comparisons of finished runs, the largest first."""
    runs = [run for run in records if run.status == RunStatus.FINISHED]
    groups: dict[tuple[Any, ...], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault((run.monitor, run.maximize, _test_key(run)), []).append(run)
    unfinished = [run for run in records if run.status != RunStatus.FINISHED and run.choices]
    return [_compare(group, unfinished) for group in sorted(groups.values(), key=len, reverse=True)]


def _test_key(run: RunRecord) -> str:
    """What identifies a run's test: its examples, or if they were not saved the task's settings."""
    task = {key: value for key, value in run.choices.items() if key.partition(".")[0] == "task"}
    return run.outputs.test or repr((task, run.results.get("test_examples")))


def _compare(runs: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> Comparison:
    keys = varied_keys([{**run.choices, **dict.fromkeys(run.lacks)} for run in runs])
    constant = _constant_choices([run.choices for run in runs])
    settings = group_by_setting(runs, keys, [run for run in unfinished if _has_choices(run, constant)])
    used = [run for setting in settings for run in setting.runs]
    available = list_metrics(used, runs[0].monitor, runs[0].maximize)
    rankings = [rank_settings(settings, metric) for metric in available]
    lengths = length_rates(rankings[0]) if rankings else None
    analyzed = [
        RankingAnalysis(**vars(ranking), verdict=conclude(ranking), factors=factors(keys, settings, group_numbers=True))
        for ranking in rankings
    ]
    if analyzed:
        analyzed[0].verdict += [
            *_place_of_defaults(keys, rankings[0]),
            *other_metrics(rankings),
            *choice_in_validation(rankings),
            *training_ended_early(used),
        ]
    unequal = unequal_conditions(used)
    for ranking in analyzed:
        ranking.verdict += unequal
    return Comparison(_title(runs[0]), keys, constant, settings, analyzed, len(runs) - len(used), lengths)


def _place_of_defaults(keys: Sequence[str], ranking: Ranking) -> list[str]:
    """How far the setting whose choices all are attnx's defaults is from the best."""
    defaults = tuple(default_choice(key) for key in keys)
    row = next((row for row in ranking.rows[1:] if ranking.settings[row.setting].values == defaults), None)
    if row is None or row.difference is None:
        return []
    amount_text, p = amount(ranking, row.difference.difference), p_text(row.difference.p)
    return [f"The defaults, {ranking.name(row)}, are {amount_text} behind the best ({p})."]


def _constant_choices(choices: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    first, *following = [{key: choice_text(value) for key, value in run.items()} for run in choices]
    return {key: text for key, text in first.items() if key != DATA and all(run.get(key) == text for run in following)}


def _has_choices(run: RunRecord, constant: Mapping[str, str]) -> bool:
    """Whether a run agrees in the choices; one that did not start knows only its overrides."""
    return all(choice_text(run.choices[key]) == text for key, text in constant.items() if key in run.choices)


def _title(run: RunRecord) -> str:
    tested = run.outputs.tested
    count = len(tested.tags) if tested else int(run.results.get("test_examples", 0))
    file = run.choices.get("task.test")
    file = "" if file in (None, "null") else value_text(file)  # a table has the text
    task = " ".join(filter(None, [str(run.choices.get("task", "")), file]))
    return count_phrase(count, "test example") + (f" of {task}" if task else "")

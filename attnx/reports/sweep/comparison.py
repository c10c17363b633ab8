"""Groups runs into comparisons, one per test, and ranks settings by each metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from attnx.config.view import choice_text, value_text
from attnx.errors import UserError, suggest
from attnx.files.parse_number import count_phrase
from attnx.reports.sweep.conclusions import choice_in_validation, conclude
from attnx.reports.sweep.effects import Effect, Effects, Factor, Interaction, effects, factors
from attnx.reports.sweep.length_rates import LengthRates, length_rates
from attnx.reports.sweep.metrics import list_metrics
from attnx.reports.sweep.ranking import Ranking, rank_settings
from attnx.reports.sweep.run_record import STEPS, RunRecord
from attnx.reports.sweep.settings import Setting, choose_best, group_by_setting, short_keys
from attnx.reports.varied_keys import DATA, varied_keys
from attnx.runs.info import RunStatus

TRIED = "tried"  # the column that counts from how many values one was chosen
MAX_CHOICES = 4  # choices named in one sentence
STILL_IMPROVING = 0.01  # of the metric, from the validation before the last to the last


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
    by the main metric comes first; ``length_rates`` are of its settings. Values of ``chosen_keys`` were chosen for each
    setting.
    """

    title: str
    keys: list[str]
    constant: dict[str, str]
    settings: list[Setting]
    rankings: list[RankingAnalysis]
    superseded: int
    length_rates: LengthRates | None
    chosen_keys: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """The names of the cells of a setting."""
        return [*short_keys([*self.keys, *self.chosen_keys]), *([TRIED] if self.chosen_keys else [])]


def comparisons(records: Sequence[RunRecord], best_over: Sequence[str] = ()) -> list[Comparison]:
    """Comparisons of finished runs, the largest first, each setting with the best value of the keys ``best_over``.

    Raises:
        UserError: the runs do not differ in such a key, or have no validation to choose by.
    """
    runs = [run for run in records if run.status == RunStatus.FINISHED]
    groups: dict[tuple[Any, ...], list[RunRecord]] = {}
    for run in runs:
        # A test is its examples, or if they were not saved the task's settings.
        task = {key: value for key, value in run.choices.items() if key.partition(".")[0] == "task"}
        test = run.test or repr((task, run.results.get("test_examples")))
        groups.setdefault((run.monitor, run.maximize, test), []).append(run)
    unfinished = [run for run in records if run.status != RunStatus.FINISHED and run.choices]
    varied = [_varied_keys(group) for group in groups.values()]
    for key in best_over:
        if not any(key in keys for keys in varied):
            candidates = {name for keys in varied for name in keys}
            raise UserError(f"--best-over {key}: the runs do not differ in it{suggest(key, candidates)}")
    return [_compare(group, unfinished, best_over) for group in sorted(groups.values(), key=len, reverse=True)]


def _varied_keys(runs: Sequence[RunRecord]) -> list[str]:
    return varied_keys([{**run.choices, **dict.fromkeys(run.lacks)} for run in runs])


def _compare(runs: Sequence[RunRecord], unfinished: Sequence[RunRecord], best_over: Sequence[str]) -> Comparison:
    keys, choices = _varied_keys(runs), [{key: choice_text(item) for key, item in run.choices.items()} for run in runs]
    constant = {
        key: text for key, text in choices[0].items() if key != DATA and all(run.get(key) == text for run in choices)
    }
    # One that did not start knows only its overrides.
    unfinished = [
        run
        for run in unfinished
        if all(choice_text(run.choices[key]) == text for key, text in constant.items() if key in run.choices)
    ]
    settings, notes = group_by_setting(runs, keys, unfinished), list[str]()
    superseded = len(runs) - sum(len(setting.runs) for setting in settings)
    if chosen_keys := [key for key in keys if key in best_over]:
        keys = [key for key in keys if key not in best_over]
        settings, notes = choose_best(runs, unfinished, keys, chosen_keys)
    used = [run for setting in settings for run in setting.runs]
    rankings = [rank_settings(settings, metric) for metric in list_metrics(used)]
    lengths = length_rates(rankings[0]) if rankings else None
    compared = factors(keys, settings, group_numbers=True)
    has_learned = not rankings or rankings[0].has_learned
    conditions = [
        *notes,
        *(training_ended_early(used) if has_learned else ()),
        *missing_combinations(compared),
        *unequal_conditions(used),
    ]
    analyzed = []
    for place, ranking in enumerate(rankings):  # the main one says what others find
        verdict = conclude(ranking, [] if place else rankings[1:]) + ([] if place else choice_in_validation(rankings))
        analyzed.append(RankingAnalysis(**vars(ranking), verdict=[*verdict, *conditions], factors=compared))
    first = runs[0]
    count = first.examples.num_examples or int(first.results.get("test_examples", 0))
    file = first.choices.get("task.test")
    file = "" if file in (None, "null") else value_text(file)  # a table has the text
    task = " ".join(filter(None, [str(first.choices.get("task", "")), file]))
    title = count_phrase(count, "test example") + (f" of {task}" if task else "")
    return Comparison(title, keys, constant, settings, analyzed, superseded, lengths, chosen_keys)


def missing_combinations(compared: Sequence[Factor]) -> list[str]:
    """How many combinations of the choices were trained, if not all of several choices."""
    if len(compared) < 2:
        return []
    trained = len({tuple(indices) for indices in zip(*(factor.indices.values() for factor in compared), strict=True)})
    total = math.prod(len(factor.values) for factor in compared)
    if trained == total:
        return []
    names = " by ".join(f"`{factor.name}`" for factor in compared)
    what = names if len(compared) <= MAX_CHOICES else f"{len(compared)} choices"
    return [
        f"{trained:,} of {total:,} combinations of {what} have results: the ranking is of these, and effects of the "
        "choices assume that the others follow from them."
    ]


def training_ended_early(runs: Sequence[RunRecord]) -> list[str]:
    """How many runs had not stopped improving: their last validation was the best, by more than 1 %."""
    curves = [(run, [*run.curves[run.monitor].values()]) for run in runs if len(run.curves.get(run.monitor, {})) > 1]
    if not curves:
        return []
    improving = 0
    for run, values in curves:
        gain = values[-1] - values[-2] if run.maximize else values[-2] - values[-1]
        is_best = values[-1] == (max if run.maximize else min)(values)
        improving += is_best and gain > STILL_IMPROVING * abs(values[-2])
    if not improving:
        return [f"No run was still improving by more than {100 * STILL_IMPROVING:g} % between its last validations."]
    return [
        f"{improving} of {len(curves)} runs were still improving by more than {100 * STILL_IMPROVING:g} % between "
        "their last validations: this compares how fast settings learn. Train longer to compare what they reach."
    ]


def unequal_conditions(runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each condition in which runs differ: steps, training data, commits, machines."""
    sentences = []
    counts = [int(run.results[STEPS]) for run in runs if STEPS in run.results]
    if len(set(counts)) > 1:
        fact = "The runs did not train for the same number of steps"
        caveat = "a difference may come from the training, not from the settings"
        if {run.budget for run in runs} == {"time"}:
            fact = "All runs had the same training time, but not the same number of steps"
            caveat = "the ranking includes what a setting costs on the machine that it ran on"
        sentences.append(f"{fact} ({min(counts):,} to {max(counts):,}): {caveat}.")
    if (data_sets := len({str(run.choices[DATA]) for run in runs if DATA in run.choices})) > 1:
        sentences.append(
            f"The runs were trained on {data_sets} different data sets: a difference may come from the data, not from "
            "the settings."
        )
    if (commits := len({run.commit for run in runs if run.commit})) > 1:
        sentences.append(f"The runs are of {commits} different commits: a difference may come from the code.")
    if (machines := len({run.machine for run in runs if run.machine})) > 1:
        sentences.append(f"The runs are of {machines} different machines: their times cannot be compared.")
    return sentences

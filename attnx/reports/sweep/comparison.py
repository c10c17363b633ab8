"""Groups runs into comparisons, one per test: settings ranked by each metric, and their error rates by length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from attnx.config.view import DATA, choice_text, value_text, varied_keys
from attnx.errors import UserError, suggest
from attnx.files.parse_number import count_phrase
from attnx.reports.metric_names import COUNTED, metric_base
from attnx.reports.run.evaluated_examples import SYMBOLS, sum_lengths
from attnx.reports.sweep.conclusions import choice_in_validation, conclude
from attnx.reports.sweep.effects import Effect, Effects, Factor, Interaction, effects, factors
from attnx.reports.sweep.metrics import list_metrics
from attnx.reports.sweep.ranking import Ranking, rank_settings
from attnx.reports.sweep.run_record import STEPS, RunRecord
from attnx.reports.sweep.settings import ABSENT, Setting, choose_best, group_by_setting, range_ends, short_keys
from attnx.runs.info import RunStatus

TRIED = "tried"  # the column that counts from how many values one was chosen
MAX_CHOICES = 4  # choices named in one sentence
STILL_IMPROVING = 0.01  # of the metric, from the validation before the last to the last
OUTPUT_METRICS = (*COUNTED, "bleu", "chrf", "ter")  # which compare outputs with references
LENGTH_GROUPS = 4  # of lengths, with about equally many examples


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


class LengthRates(NamedTuple):
    """The error rate in percent of each setting of a ranking by groups of source lengths, the mean over seeds."""

    label: str  #: what the rate is of, symbols or sequences; languages are together
    groups: list[tuple[int, int]]  #: the first and the last length of each group
    examples: list[int]  #: the test examples of each group
    rates: dict[int, list[float]]  #: by the index of the setting, in the order of the ranking

    @property
    def labels(self) -> list[str]:
        """The groups as text: ``2 to 5``."""
        return [str(low) if low == high else f"{low} to {high}" for low, high in self.groups]


class Comparison(NamedTuple):
    """Runs with the same test data, by the choices in which they differ (``keys``) and agree (``constant``).

    Their main metric has one definition (``RunRecord.signature``): BLEU over other tokens is another metric.
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
        task = {key: choice_text(value) for key, value in run.choices.items() if key.partition(".")[0] == "task"}
        test = run.test or repr((task, run.results.get("test_examples")))
        groups.setdefault((run.monitor, run.maximize, test, run.signature(run.monitor)), []).append(run)
    unfinished = [run for run in records if run.status != RunStatus.FINISHED and run.choices]
    varied = [_varied_keys(group) for group in groups.values()]
    for key in best_over:
        if not any(key in keys for keys in varied):
            candidates = {name for keys in varied for name in keys}
            raise UserError(f"--best-over {key}: the runs do not differ in it{suggest(key, candidates)}")
    differ = len({signature for *_, signature in groups}) > 1
    return [
        _compare(group, unfinished, best_over, signature if differ else "")
        for (*_, signature), group in sorted(groups.items(), key=lambda item: len(item[1]), reverse=True)
    ]


def _varied_keys(runs: Sequence[RunRecord]) -> list[str]:
    return varied_keys([{**run.choices, **dict.fromkeys(run.lacks)} for run in runs])


def _compare(
    runs: Sequence[RunRecord], unfinished: Sequence[RunRecord], best_over: Sequence[str], signature: str
) -> Comparison:
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
        verdict += best_at_an_end(keys, ranking) if has_learned else []
        analyzed.append(RankingAnalysis(**vars(ranking), verdict=[*verdict, *conditions], factors=compared))
    first = runs[0]
    count = first.examples.num_examples or int(first.results.get("test_examples", 0))
    file = first.choices.get("task.test")
    file = "" if file in (None, "null") else value_text(file)  # a table has the text
    task = " ".join(filter(None, [str(first.choices.get("task", "")), file]))
    title = count_phrase(count, "test example") + (f" of {task}" if task else "") + (signature and f", {signature}")
    return Comparison(title, keys, constant, settings, analyzed, superseded, lengths, chosen_keys)


def length_rates(ranking: Ranking) -> LengthRates | None:
    """Rates of what the ranking's metric counts, symbols or sequences, or else of symbols.

    None if a run's errors by length are unknown; if sources have other lengths in some runs, as by another tokenizer;
    or if no metric compares outputs with references: of points in any order, or of continuations, edits say nothing.
    """
    counted = COUNTED.get(metric_base(ranking.metric.key, COUNTED), SYMBOLS)
    counts = {row.setting_index: [run.examples.length_errors for run in row.setting.runs] for row in ranking.rows}
    names = {name for row in ranking.rows for run in row.setting.runs for name in run.results}
    has_rates = any(metric_base(name, OUTPUT_METRICS) for name in names)
    if not has_rates or not all(by_length for runs in counts.values() for by_length in runs):
        return None
    first, *further = (
        {length: errors.examples for length, errors in by_length.items()}
        for runs in counts.values()
        for by_length in runs
    )
    if any(lengths != first for lengths in further):
        return None
    groups = group_lengths(first)
    rates = {
        setting: [fmean(sum_lengths(errors, group).rate(counted) for errors in runs) for group in groups]
        for setting, runs in counts.items()
    }
    examples = [sum(count for length, count in first.items() if low <= length <= high) for low, high in groups]
    return LengthRates(f"{counted.removesuffix('s')} error rate", groups, examples, rates)


def group_lengths(examples: Mapping[int, int]) -> list[tuple[int, int]]:
    """Neighboring lengths in groups of about equally many examples, given the examples of each length.

    >>> group_lengths({2: 10, 3: 10, 4: 20, 5: 20, 9: 1, 11: 19})
    [(2, 3), (4, 4), (5, 5), (9, 11)]
    """
    lengths = sorted(examples)
    shares = np.cumsum([examples[length] for length in lengths]) / sum(examples.values())
    centers = shares - np.diff(shares, prepend=0) / 2  # a length belongs to the group in which its middle example lies
    codes = np.minimum((centers * LENGTH_GROUPS).astype(int), LENGTH_GROUPS - 1)
    members = [
        [length for length, code in zip(lengths, codes, strict=True) if code == group] for group in range(LENGTH_GROUPS)
    ]
    return [(group[0], group[-1]) for group in members if group]


def best_at_an_end(keys: Sequence[str], ranking: Ranking) -> list[str]:
    """The choices of which the best setting has the lowest or the highest of three numbers or more."""
    names = []
    for place, key in enumerate(keys):
        tried = [value for row in ranking.rows if (value := row.setting.values[place]) != ABSENT]
        if ranking.rows and ranking.rows[0].setting.values[place] in range_ends(tried):
            names.append(f"`{key}`")
    if not names:
        return []
    return [f"The first has the lowest or the highest {' and '.join(names)} tried: one beyond may be better."]


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

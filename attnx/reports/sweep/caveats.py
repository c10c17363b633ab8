"""What speaks against a verdict: values that are no numbers, unequal conditions, training that ended early."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnx.reports.sweep.effects import Factor
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.run_record import DATA, STEPS, RunRecord
from attnx.reports.sweep.settings import first_few

MAX_CHOICES = 4  # choices named in one sentence
STILL_IMPROVING = 0.01  # of the metric, from the validation before the last to the last


def unusable_values(ranking: Ranking) -> list[str]:
    """Settings without a value, or with fewer values than seeds, and what follows."""
    ranked, label, settings = {row.setting for row in ranking.rows}, ranking.metric.label, ranking.settings
    names = [f"**{item.name}**" for index, item in enumerate(settings) if item.runs and index not in ranked]
    partial = [
        f"{ranking.name(row)} ({lacking} of {settings[row.setting].num_seeds})"
        for row in ranking.rows
        if (lacking := settings[row.setting].num_seeds - len(row.values))
    ]
    sentences = [f"Not ranked, since {label} is no number: {first_few(names)}."] if names else []
    if partial:
        sentences.append(
            f"Seeds failed, or their {label} is no number, of {first_few(partial)}: means are over the others, and a "
            "setting with such a seed cannot win."
        )
    return sentences


def unequal_seeds(ranking: Ranking) -> list[str]:
    """Settings that are not compared, have fewer seeds than others, or do not vary over them, and what follows."""
    if not ranking.has_seeds:
        return []
    repeated = [row for row in ranking.rows if len(row.values) > 1]
    single = [ranking.name(row) for row in ranking.rows if len(row.values) == 1]
    constant = [ranking.name(row) for row in repeated if len({*row.values.values()}) == 1]
    counts = sorted({len(row.values) for row in repeated})
    sentences = [f"Not compared, since one seed says nothing about others: {first_few(single)}."] if single else []
    if len(counts) > 1:
        sentences.append(f"Means are over {counts[0]} to {counts[-1]} seeds: those over fewer have wider intervals.")
    if constant:
        sentences.append(
            f"All seeds of {first_few(constant)} have the same {ranking.metric.label}, so this counts as exact: are "
            "they one run?"
        )
    return sentences


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
    """A sentence for each condition in which runs differ: steps, training data, commits."""
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
    return sentences

"""Conclusions in sentences: what to take, how sure that is, what would change it, and what speaks against it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.sweep.metrics import Metric
from attnx.reports.sweep.ranking import RankedSetting, Ranking
from attnx.reports.sweep.run_record import DATA, RunRecord

STEPS = "steps"
MAX_NAMES = 3  # settings named in one sentence
STILL_IMPROVING = 0.01  # of the metric, from the validation before the last to the last
ONE_SEED = (
    "With one seed each, this compares the trained weights, not the settings: other seeds may give another order. "
    "Train with `seed=1,2,3` to compare the settings."
)
MORE_SEEDS = "add some to `seed=` and run the same command; finished jobs are skipped."


def conclude(ranking: Ranking) -> list[str]:
    """The conclusions as sentences, with names in double asterisks; the first says what to take."""
    if not ranking.rows:
        return [f"No finished run has {ranking.metric.label}."]
    best, *followers = ranking.rows
    name, value, unmeasured = ranking.name(best), _value(best, ranking.metric), _unmeasured(ranking)
    if not followers:
        only = f"Of all settings {name} alone has a rank" if unmeasured else "There is only one setting"
        return [f"{only}, so there is nothing to compare: {value}.", *unmeasured]
    if all(row.difference is None for row in followers):
        reason = "there is one seed each, and no predictions to count this metric from"
        if any(len(row.values) > 1 for row in ranking.rows):
            reason = "no setting varies over its seeds"
        return [
            f"{name} is first with {value}, but the differences cannot be tested: {reason}.",
            *unmeasured,
            "Train each setting with several seeds, `seed=1,2,3`.",
        ]
    return [_advice(ranking, value), *unmeasured, *_certainty(ranking), *_remedy(ranking)]


def _unmeasured(ranking: Ranking) -> list[str]:
    """Which settings have finished without the metric, as one whose perplexity is infinite."""
    ranked = {row.setting for row in ranking.rows}
    names = [f"**{item.name}**" for index, item in enumerate(ranking.settings) if item.runs and index not in ranked]
    return [f"Not ranked, since {ranking.metric.label} is no number: {first_few(names)}."] if names else []


def first_few(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    surplus = len(names) - MAX_NAMES
    return "; ".join([*names[:MAX_NAMES], *([f"and {surplus} more"] if surplus > 0 else [])])


def _advice(ranking: Ranking, value: str) -> str:
    """What to take."""
    best, follower, *_ = ranking.rows
    name = ranking.name(best)
    if not ranking.has_seeds and not ranking.undecided:
        return f"The weights of {name} score best on these test examples: {value}, {_lead(ranking, follower)}."
    if ranking.has_winner:
        is_open = any(row.both_sources is not None and row.both_sources[0] <= 0 for row in ranking.rows)
        scope = " on these test examples" if is_open else ""
        return f"Take {name}, which won{scope}: {value}, {_lead(ranking, follower)}."
    if not ranking.undecided:
        reason = ranking.why_no_winner or "its own seeds vary too much to be sure"
        return f"No winner: {name} is first with {value}, {_lead(ranking, follower)}, but {reason}."
    equal = [best, *ranking.undecided]
    names = first_few([ranking.name(row) for row in equal])
    choice = f"{name} or {ranking.name(equal[1])}" if len(equal) == 2 else f"any of {len(equal)} settings"
    listed = "" if len(equal) == 2 else f": {names}"
    gap = equal[1].difference
    bound = f", at most {amount(ranking, gap.high)} better than {ranking.name(equal[1])}" if gap else ""
    flaw = f"; {ranking.why_no_winner}" if ranking.why_no_winner and ranking.has_seeds else ""
    return f"Take {choice}; they cannot be told apart{listed}. {name} is first with {value}{bound}{flaw}."


def _lead(ranking: Ranking, row: RankedSetting) -> str:
    if (gap := row.difference) is None:
        return f"ahead of {ranking.name(row)}"
    text = ranking.metric.format
    bounds = f"at least {text(gap.low)}" if ranking.has_winner else f"95 % interval {text(gap.low)} to {text(gap.high)}"
    return f"{amount(ranking, gap.difference)} better than {ranking.name(row)} ({bounds}, {p_text(gap.p)})"


def amount(ranking: Ranking, difference: float) -> str:
    """A difference from the best in the metric's units, of an error also in percent of the worse one.

    A metric of 10 and a best one of 8 differ by ``2.00 (20 %)``.
    """
    text = ranking.metric.format(difference)
    if ranking.scale.least is None:
        return text
    best = math.exp(float(ranking.scale.apply([*ranking.rows[0].values.values()]).mean()))
    return f"{text} ({100 * difference / (best + difference):.0f} %)" if best + difference > 0 else text


def _certainty(ranking: Ranking) -> list[str]:
    """How many settings are worse, and by what test."""
    total = sum(len(row.values) > 1 for row in ranking.rows[1:]) if ranking.has_seeds else len(ranking.rows) - 1
    worse = total - len(ranking.undecided)
    verb = "is" if worse else "is not"
    summary = f"It {verb} significantly better (p < {SIGNIFICANCE_LEVEL}) than {_count(worse, total)}."
    if not ranking.has_seeds:
        return [
            f"{summary} Test: paired bootstrap over the test examples, adjusted for all pairs of settings.",
            ONE_SEED,
        ]
    scale = " of logarithms" if ranking.scale.least is not None else ""
    pairs = "comparisons with it, one-sided" if ranking.has_winner else "pairs of settings"
    test = f"Test: means{scale} over seeds, each with its moderated variance, adjusted for all {pairs}."
    return [f"{summary} {test}", *_single_seeds(ranking), *_both_sources(ranking)]


def _single_seeds(ranking: Ranking) -> list[str]:
    """Which settings have one seed, and so are not compared."""
    names = [ranking.name(row) for row in ranking.rows if len(row.values) == 1]
    return [f"Not compared, since one seed says nothing about others: {first_few(names)}."] if names else []


def _both_sources(ranking: Ranking) -> list[str]:
    """Intervals over seeds and test examples, of the second setting, or of those that could then lead."""
    rows, text = ranking.rows[1:], ranking.metric.format
    doubtful = [row for row in rows if row.both_sources and row.both_sources[0] <= 0] if ranking.has_winner else []
    parts = [
        f"{ranking.name(row)} {_behind_text(*map(text, row.both_sources), is_open=row.both_sources[0] <= 0)}"
        for row in doubtful[:MAX_NAMES] or rows[:1]
        if row.both_sources
    ]
    return [f"Over other seeds and other test examples (95 %, one comparison) {'; '.join(parts)}."] if parts else []


def _behind_text(low: str, high: str, *, is_open: bool) -> str:
    return f"may be {low.removeprefix('-')} ahead or {high} behind" if is_open else f"is {low} to {high} behind"


def _remedy(ranking: Ranking) -> list[str]:
    """What would have been found with these seeds, and how to find less."""
    if not ranking.has_seeds or ranking.has_winner:
        return []
    row = ranking.rows[1]
    if row.difference is None:
        return [f"More seeds would tell: {MORE_SEEDS}"]
    lead = ranking.metric.format(row.difference.high - row.difference.difference)
    return [
        f"With these seeds, a lead of about {lead} over {ranking.name(row)} would be significant. More seeds find "
        f"less: {MORE_SEEDS}"
    ]


def _count(significant: int, total: int) -> str:
    if total == 1:
        return "the other setting"
    if not significant:
        return f"any of the other {total} settings"
    return f"each of the other {total} settings" if significant == total else f"{significant} of the other {total}"


def _value(row: RankedSetting, metric: Metric) -> str:
    unit = " %" if metric.unit.startswith("%") else ""
    if row.sd is None:
        return f"{metric.label} {metric.format(row.mean)}{unit} with one seed"
    return f"{metric.label} {metric.format(row.mean)} ± {metric.format(row.sd)}{unit} over {len(row.values)} seeds"


def other_metrics(rankings: Sequence[Ranking]) -> list[str]:
    """By which other metrics of the test the first setting is significantly behind another one."""
    main, *further = rankings
    sentences = []
    for ranking in further:
        row = next((row for row in ranking.rows if main.rows and row.setting == main.rows[0].setting), None)
        if ranking.metric.key.startswith("test_") and row and _is_worse(row.difference):
            assert row.difference is not None, "it is worse"
            lead = (
                f"{amount(ranking, row.difference.difference)} better than {main.name(row)}, {p_text(row.difference.p)}"
            )
            sentences.append(f"By {ranking.metric.label} {ranking.name(ranking.rows[0])} is first, {lead}.")
    return sentences[:MAX_NAMES]


def _is_worse(difference: MeanDifference | None) -> bool:
    return difference is not None and difference.p < SIGNIFICANCE_LEVEL


def choice_in_validation(rankings: Sequence[Ranking]) -> list[str]:
    """Which setting validation would choose, and how it does on the test by which settings are ranked."""
    main, last = rankings[0], rankings[-1]
    if len(main.rows) < 2 or not last.metric.key.startswith("valid_") or not last.rows:
        return []
    setting = last.rows[0].setting
    rank, row = next(((rank, row) for rank, row in enumerate(main.rows, 1) if row.setting == setting), (0, None))
    if row is None:
        return []
    text = f"Settings are ranked on the test. Validation would choose {main.name(row)}"
    return [
        f"{text}, too." if rank == 1 else f"{text}, which is number {rank} on the test: {_value(row, main.metric)}."
    ]


def training_ended_early(runs: Sequence[RunRecord]) -> list[str]:
    """How many runs had not stopped improving: their last validation was the best, by more than 1 %."""
    curves = [(run, [*run.curves[run.monitor].values()]) for run in runs if len(run.curves.get(run.monitor, {})) > 1]
    improving = [run for run, values in curves if _improves(values, run.maximize)]
    if not improving:
        return []
    return [
        f"{len(improving)} of {len(curves)} runs were still improving by more than {STILL_IMPROVING:.0%} between their "
        "last validations: this compares how fast settings learn. Train longer to compare what they reach."
    ]


def _improves(values: Sequence[float], maximize: bool) -> bool:
    *_, previous, last = values
    gain = last - previous if maximize else previous - last
    best = max(values) if maximize else min(values)
    return last == best and gain > STILL_IMPROVING * abs(previous)


def unequal_conditions(runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each condition in which runs differ: steps, training data, commits."""
    sentences = _unequal_steps(runs)
    if (data_sets := len({str(run.choices[DATA]) for run in runs if DATA in run.choices})) > 1:
        sentences.append(
            f"The runs were trained on {data_sets} different data sets: a difference may come from the data, not from "
            "the settings."
        )
    if (commits := len({run.commit for run in runs if run.commit})) > 1:
        sentences.append(f"The runs are of {commits} different commits: a difference may come from the code.")
    return sentences


def _unequal_steps(runs: Sequence[RunRecord]) -> list[str]:
    counts = [int(run.results[STEPS]) for run in runs if STEPS in run.results]
    if len(set(counts)) < 2:
        return []
    if {run.budget for run in runs} == {"time"}:
        fact = "All runs had the same training time, but not the same number of steps"
        caveat = "the ranking includes what a setting costs on the machine that it ran on"
    else:
        fact = "The runs did not train for the same number of steps"
        caveat = "a difference may come from the training, not from the settings"
    return [f"{fact} ({min(counts):,} to {max(counts):,}): {caveat}."]


def p_text(p: float) -> str:
    """A p-value in a sentence.

    >>> p_text(0.0004), p_text(0.0312), p_text(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def p_value(p: float) -> str:
    """A p-value in a table.

    >>> p_value(0.0004), p_value(0.0312), p_value(0.4)
    ('< 0.001', '0.031', '0.40')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"

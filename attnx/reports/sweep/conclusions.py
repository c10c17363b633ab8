"""Conclusions in sentences: what to take, how sure that is, what would change it, and what speaks against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from attnx.reports.metric_names import MAX_PERCENT, TEST, VALID
from attnx.reports.significant_digits import p_text
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.sweep.metrics import Metric
from attnx.reports.sweep.ranking import RankedSetting, Ranking
from attnx.reports.sweep.run_record import steps_range
from attnx.reports.sweep.settings import MAX_NAMES, first_few

ONE_SEED = (
    "With one seed each, this compares the trained weights, not the settings: other seeds may give another order. "
    "Train with `seed=1,2,3` to compare the settings."
)
EQUAL_SEEDS = (
    "No setting varies over its seeds, so this compares the trained weights on these test examples: are the seeds of a "
    "setting one run?"
)
MORE_SEEDS = "add some to `seed=` and run the same command; finished jobs are skipped."


def conclude(ranking: Ranking, further: Sequence[Ranking] = ()) -> list[str]:
    """The conclusions as sentences, with names in double asterisks.

    The first says what to take, the second how sure that is, the third what would change it. Rankings by ``further``
    metrics may disagree; the last may be of validation.
    """
    if not ranking.rows:
        return [f"No finished run has {ranking.metric.label}."]
    notes = [*unequal_seeds(ranking), *unusable_values(ranking)]
    best, *followers = ranking.rows
    name, value = ranking.name(best), _value(best, ranking.metric)
    if not followers:
        only = f"Of all settings {name} alone has a rank" if len(ranking.settings) > 1 else "There is only one setting"
        return [f"{only}, so there is nothing to compare: {value}.", *notes]
    if equality := _equality(ranking):
        return [*equality, *notes]
    if len(ranking.uncompared) == len(followers):
        untested = " ".join([_untested(ranking, value), *_other_metrics(ranking, further)])
        return [untested, "Train each setting with several seeds, `seed=1,2,3`.", *notes]
    advice = " ".join([_advice(ranking, value, _choice_in_validation(further)), *_other_metrics(ranking, further)])
    has_one_each = all(len(row.values) == 1 for row in ranking.rows)
    sources = _both_sources(ranking) if ranking.has_seeds else [ONE_SEED if has_one_each else EQUAL_SEEDS]
    return [advice, _certainty(ranking), *_remedy(ranking), *sources, *_place_of_defaults(ranking), *notes]


def _equality(ranking: Ranking) -> list[str]:
    """That all settings are equal, and why: there is nothing to take, and more seeds would not change it."""
    values = [value for row in ranking.rows for value in row.values.values()]
    ends = [*dict.fromkeys(map(ranking.metric.format, (min(values), max(values))))]
    word = "equal" if len(ends) == 1 else "equally bad"
    value = f"{ranking.metric.label} {' to '.join(ends)}{ranking.metric.percent_sign}"
    start = f"All {len(ranking.rows)} settings are {word}, with {value}"
    if not ranking.has_learned:
        steps = steps_range([run for row in ranking.rows for run in row.setting.runs])
        duration = f" after {steps} steps" if steps else ""
        return [
            f"{start}: training was too short{duration}, and nothing was learned. Train longer (`trainer.max_steps`)."
        ]
    if ranking.is_alike:
        return [f"{start} in every run: training was too short to tell them apart, or this test is too small or easy."]
    return []


def _untested(ranking: Ranking, value: str) -> str:
    """What can be said where no difference can be tested, and why."""
    best, metric = ranking.rows[0], ranking.metric
    if ranking.has_seeds:  # those with one seed are behind, whatever their values
        single = min(ranking.rows[1:], key=lambda row: ranking.scale.sign * row.mean)
        return (
            f"{ranking.name(best)} alone has several seeds: {value}. One seed says nothing about others, so nothing is "
            f"compared; the best of the others is {ranking.name(single)}, {_value(single, metric)}."
        )
    reason = "there is one seed each"
    if any(len(row.values) > 1 for row in ranking.rows):
        reason = "no setting varies over its seeds"
    return (
        f"{ranking.name(best)} is first with {value}, but the differences cannot be tested: {reason}, and there are no "
        "predictions to count this metric from."
    )


def _advice(ranking: Ranking, value: str, validated: int | None) -> str:
    """What to take; ``validated`` is the setting that validation chooses."""
    best, follower, *_ = ranking.rows
    name = ranking.name(best)
    if not ranking.has_seeds and not ranking.undecided:
        return f"The weights of {name} score best on these test examples: {value}, {_lead(ranking, follower)}."
    if ranking.has_winner:
        is_open = any(row.both_sources is not None and row.both_sources[0] <= 0 for row in ranking.rows)
        scope = " on these test examples" if is_open else ""
        return f"Take {_marked(ranking, best)}, which won{scope}: {value}, {_lead(ranking, follower)}."
    if not ranking.undecided:
        return f"No winner: {name} is first with {value}, {_lead(ranking, follower)}, but {ranking.doubt}."
    # What validation chooses comes first.
    equal = sorted([best, *ranking.undecided], key=lambda row: row.setting_index != validated)
    rival = next(row for row in equal if row is not best)
    bound = ""
    if gap := rival.difference:
        bound = f", at most {amount(ranking, gap.high)} better than {ranking.name(rival)}"
    flaw = f"; {ranking.doubt}" if ranking.doubt else ""
    return f"Take {_near_best(ranking, equal, validated)} {name} is first with {value}{bound}{flaw}."


def _near_best(ranking: Ranking, equal: Sequence[RankedSetting], validated: int | None) -> str:
    """The settings that cannot be told from the best, with their distances from it; the defaults are named."""
    is_chosen = equal[0].setting_index == validated
    first = _marked(ranking, equal[0]) + (", which validation chooses," if is_chosen else "")
    if len(equal) == 2:
        return f"{first} or {_marked(ranking, equal[1])}; they cannot be told apart."
    listed = equal[is_chosen:]
    default = [row for row in listed[MAX_NAMES:] if row.setting.is_default]
    names = []
    for row in [*listed[: MAX_NAMES - len(default)], *default]:
        distance = f", {amount(ranking, row.difference.difference)} behind" if row.difference else ""
        names.append(f"{_marked(ranking, row)}{distance}")
    surplus = [f"and {len(listed) - len(names)} more"] if len(listed) > len(names) else []
    start = f"{first} or any of {len(listed)} others" if is_chosen else f"any of {len(listed)} settings"
    return f"{start}; they cannot be told apart: {'; '.join([*names, *surplus])}."


def _marked(ranking: Ranking, row: RankedSetting) -> str:
    return ranking.name(row) + (" (the defaults)" if row.setting.is_default else "")


def _lead(ranking: Ranking, row: RankedSetting) -> str:
    if (gap := row.difference) is None:
        return f"ahead of {ranking.name(row)}"
    text = ranking.metric.format
    bounds = f"at least {text(gap.low)}" if ranking.has_winner else f"95 % interval {text(gap.low)} to {text(gap.high)}"
    return f"{amount(ranking, gap.difference)} better than {ranking.name(row)} ({bounds}, {p_text(gap.p)})"


def amount(ranking: Ranking, difference: float) -> str:
    """A difference from the best in the metric's units, for an error also in percent of the worse one.

    Errors of 10 and 8 differ by ``2.00 (20 %)``, accuracies of 90 and 92 by ``2.00 (20 % of the error)``.
    """
    text = ranking.metric.format(difference)
    if ranking.scale.least is None:
        return text
    best, whole = ranking.scale_mean(ranking.rows[0]), ""
    if ranking.scale.sign < 0:
        best, whole = MAX_PERCENT - best, " of the error"
    return f"{text} ({100 * difference / (best + difference):.0f} %{whole})" if best + difference > 0 else text


def _certainty(ranking: Ranking) -> str:
    """How many settings are worse, and by what test."""
    total = len(ranking.rows) - 1 - len(ranking.uncompared)
    worse = total - len(ranking.undecided)
    verb, others = "is" if worse else "is not", f"{worse} of the other {total}"
    if total == 1:
        others = "the other setting"
    elif worse in (0, total):
        others = f"{'each' if worse else 'any'} of the other {total} settings"
    summary = f"The first {verb} significantly better (p < {SIGNIFICANCE_LEVEL}) than {others}."
    if not ranking.has_seeds:
        return f"{summary} Test: paired bootstrap over the test examples, adjusted for all pairs of settings."
    scale = " of logarithms" if ranking.scale.least is not None else ""
    pairs = "comparisons with it, one-sided (5 % beyond each end)" if ranking.has_winner else "pairs of settings"
    return f"{summary} Test: means{scale} over seeds, each with its moderated variance, adjusted for all {pairs}."


def _both_sources(ranking: Ranking) -> list[str]:
    """Intervals over seeds and test examples, of the second setting, or of those that could then lead."""
    rows, text = ranking.rows[1:], ranking.metric.format
    doubtful = [row for row in rows if row.both_sources and row.both_sources[0] <= 0] if ranking.has_winner else []
    parts = [
        f"{ranking.name(row)} may be {text(low).removeprefix('-')} ahead or {text(high)} behind"
        if low <= 0
        else f"{ranking.name(row)} is {text(low)} to {text(high)} behind"
        for row in doubtful[:MAX_NAMES] or rows[:1]
        if row.both_sources
        for low, high in [row.both_sources]
    ]
    return [f"Over other seeds and other test examples (95 %, one comparison) {'; '.join(parts)}."] if parts else []


def _remedy(ranking: Ranking) -> list[str]:
    """What would have been found with these seeds, and how to find less."""
    if not ranking.has_seeds or ranking.has_winner:
        return []
    row = next(iter(ranking.undecided), None)
    if row is None or row.difference is None:  # more seeds do not undo a failed one
        return [] if ranking.why_no_winner else [f"More seeds would tell: {MORE_SEEDS}"]
    gap, low, *_ = row.difference
    if gap == low:  # more seeds of two that count as exact find nothing
        return []
    lead = gap - low
    if ranking.scale.least is not None:  # the half width is of the logarithm
        best = math.exp(fmean(ranking.rows[0].on_scale(ranking.scale)))
        lead *= best / (best + low)
    enough = f"a lead of about {ranking.metric.format(lead)} over {ranking.name(row)} would be significant"
    return [f"With these seeds, {enough}. More seeds find less: {MORE_SEEDS}"]


def _value(row: RankedSetting, metric: Metric) -> str:
    if row.sd is None:
        return f"{metric.label} {metric.format(row.mean)}{metric.percent_sign} with one seed"
    spread = f"{metric.format(row.mean)} ± {metric.format(row.sd)}{metric.percent_sign}"
    return f"{metric.label} {spread} over {len(row.values)} seeds"


def _other_metrics(ranking: Ranking, further: Sequence[Ranking]) -> list[str]:
    """By which other metrics of the test another setting is first, and significantly so, if that is tested."""
    best, sentences = ranking.rows[0], []
    for by_metric in further:
        row = next((row for row in by_metric.rows[1:] if row.setting_index == best.setting_index), None)
        if row is None or row.mean == by_metric.rows[0].mean or not by_metric.metric.key.startswith(TEST):
            continue
        start, gap = f"By {by_metric.metric.label} {by_metric.name(by_metric.rows[0])} is first", row.difference
        if gap and gap.p < SIGNIFICANCE_LEVEL:
            lead = f"{amount(by_metric, gap.difference)} better than {ranking.name(best)}, {p_text(gap.p)}"
            sentences.append(f"{start}, {lead}.")
        elif not any(entry.difference for entry in by_metric.rows):
            metric = by_metric.metric
            sentences.append(f"{start}, with {metric.format(by_metric.rows[0].mean)}{metric.percent_sign}.")
    return sentences[:MAX_NAMES]


def _choice_in_validation(further: Sequence[Ranking]) -> int | None:
    """The setting that is first in validation, if that is measured."""
    last = further[-1] if further else None
    return last.rows[0].setting_index if last and last.metric.key.startswith(VALID) and last.rows else None


def _place_of_defaults(ranking: Ranking) -> list[str]:
    """How far the setting whose choices all are attnx's defaults is from the best, if that is sure."""
    row = next((row for row in ranking.rows[1:] if row.setting.is_default), None)
    if row is None or row.difference is None or row in ranking.undecided:
        return []
    amount_text, p = amount(ranking, row.difference.difference), p_text(row.difference.p)
    return [f"The defaults, {ranking.name(row)}, are {amount_text} behind the best ({p})."]


def choice_in_validation(rankings: Sequence[Ranking]) -> list[str]:
    """Which setting validation would choose, and how it does on the test by which settings are ranked."""
    main, setting = rankings[0], _choice_in_validation(rankings[1:])
    if len(main.rows) < 2 or _equality(main):
        return []
    rank, row = next(((rank, row) for rank, row in enumerate(main.rows, 1) if row.setting_index == setting), (0, None))
    if row is None:
        return []
    text = f"Settings are ranked on the test. Validation would choose {main.name(row)}"
    return [
        f"{text}, too." if rank == 1 else f"{text}, which is number {rank} on the test: {_value(row, main.metric)}."
    ]


def unusable_values(ranking: Ranking) -> list[str]:
    """Settings without a value, or with fewer values than seeds, and what follows."""
    ranked, label = {row.setting_index for row in ranking.rows}, ranking.metric.label
    names = [f"**{item.name}**" for index, item in enumerate(ranking.settings) if item.runs and index not in ranked]
    partial = [
        f"{ranking.name(row)} ({lacking} of {row.setting.num_seeds})"
        for row in ranking.rows
        if (lacking := row.setting.num_seeds - len(row.setting.open_seeds) - len(row.values))
    ]
    still_open = [
        f"{ranking.name(row)} ({len(row.setting.open_seeds)} of {row.setting.num_seeds})"
        for row in ranking.rows
        if row.setting.open_seeds
    ]
    sentences = [f"Not ranked, since {label} is no number: {first_few(names)}."] if names else []
    if partial:
        sentences.append(
            f"Seeds failed, or their {label} is no number, of {first_few(partial)}: means are over the others, and a "
            "setting with such a seed cannot win."
        )
    if still_open:
        sentences.append(f"Seeds have not finished of {first_few(still_open)}: means are over the others.")
    return sentences


def unequal_seeds(ranking: Ranking) -> list[str]:
    """Settings that are not compared, have fewer seeds than others, or do not vary over them, and what follows."""
    if not ranking.has_seeds:
        names = [] if len(ranking.uncompared) == len(ranking.rows) - 1 else [*map(ranking.name, ranking.uncompared)]
        return [f"Not compared, since predictions were not saved: {first_few(names)}."] if names else []
    repeated = [row for row in ranking.rows if len(row.values) > 1]
    single = [ranking.name(row) for row in ranking.rows if len(row.values) == 1]
    constant = [ranking.name(row) for row in repeated if len({*row.values.values()}) == 1]
    counts = sorted({len(row.values) for row in repeated})
    sentences = [f"Not compared, since one seed says nothing about others: {first_few(single)}."] if single else []
    if len(counts) > 1:
        sentences.append(f"Means are over {counts[0]} to {counts[-1]} seeds: those over fewer have wider intervals.")
    if constant:
        exact = "exact to half an example" if ranking.scale.half_step else "exact"
        sentences.append(
            f"All seeds of {first_few(constant)} have the same {ranking.metric.label}, so this counts as {exact}: are "
            "they one run?"
        )
    return sentences

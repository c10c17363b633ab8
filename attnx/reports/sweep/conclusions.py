"""Conclusions in sentences: which setting is best, whether significantly, and which conditions of runs are unequal."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.reports.stats.multiple_comparisons import EXAMPLES, MAX_SEEDS, SIGNIFICANCE_LEVEL, SeedCount, seeds_needed
from attnx.reports.stats.pooled_variance import PooledVariance
from attnx.reports.stats.rank_correlation import permutation_p, rank_correlation
from attnx.reports.sweep.metrics import Metric, run_value
from attnx.reports.sweep.ranking import RankedSetting, Ranking
from attnx.reports.sweep.run_record import DATA, RunRecord

STEPS = "steps"
MAX_NAMES = 3  # settings named in one sentence
ONE_SEED = (
    "With one seed each, this compares the trained weights, not the settings: other seeds may give another order. "
    "Train with `seed=1,2,3` to compare the settings."
)


def conclude(ranking: Ranking) -> list[str]:
    """The conclusions as sentences, with names in double asterisks; the first names the winner, if there is one."""
    if not ranking.rows:
        return [f"No finished run has {ranking.metric.label}."]
    best, *followers = ranking.rows
    name, value, unmeasured = ranking.name(best), _value(best, ranking.metric), _unmeasured(ranking)
    if not followers:
        only = f"Of all settings {name} alone has a rank" if unmeasured else "There is only one setting"
        return [f"{only}, so there is nothing to compare: {value}.", *unmeasured]
    if all(row.difference is None for row in followers):
        reason = "there is one seed each, and no predictions to count this metric from"
        if ranking.pooled.degrees:
            reason = "no setting varies over its seeds"
        return [
            f"{name} is first with {value}, but the differences cannot be tested: {reason}.",
            *unmeasured,
            "Train each setting with several seeds, `seed=1,2,3`.",
        ]
    verdict = _undecided(ranking, value) if ranking.undecided else _decided(ranking, value)
    return [verdict, *unmeasured, *_tests(ranking)]


def _unmeasured(ranking: Ranking) -> list[str]:
    """Which settings have finished without the metric, as one whose perplexity is infinite."""
    ranked = {row.setting for row in ranking.rows}
    names = [f"**{item.name}**" for index, item in enumerate(ranking.settings) if item.runs and index not in ranked]
    return [f"Not ranked, since {ranking.metric.label} is no number: {first_few(names)}."] if names else []


def first_few(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    surplus = len(names) - MAX_NAMES
    return "; ".join([*names[:MAX_NAMES], *([f"and {surplus} more"] if surplus > 0 else [])])


def _decided(ranking: Ranking, value: str) -> str:
    text, difference = ranking.metric.format, ranking.rows[1].difference
    assert difference is not None, "the settings would be undecided"
    name, follower = map(ranking.name, ranking.rows[:2])
    interval = f"95 % interval {text(difference.low)} to {text(difference.high)}"
    lead = f"{text(difference.difference)} better than {follower} ({interval}, {p_text(difference.p)})"
    if not ranking.pooled.degrees:
        return f"The weights of {name} score best on these test examples: {value}, {lead}."
    scope = " on these test examples" if any(_is_open(row.both_sources) for row in ranking.rows) else ""
    return f"{name} won{scope}: {value}, {lead}."


def _undecided(ranking: Ranking, value: str) -> str:
    names = []
    for row in ranking.undecided:
        difference = row.difference
        gap = f" ({ranking.metric.format(difference.difference)} behind, {p_text(difference.p)})" if difference else ""
        names.append(f"{ranking.name(row)}{gap}")
    first = f"No winner: {ranking.name(ranking.rows[0])} is first with {value}"
    return f"{first}, but not significantly better than {first_few(names)}."


def _tests(ranking: Ranking) -> list[str]:
    rows, pooled = ranking.rows, ranking.pooled
    significant = len(rows) - 1 - len(ranking.undecided)
    verb = "is" if significant else "is not"
    summary = f"It {verb} significantly better (p < {SIGNIFICANCE_LEVEL}) than {_count(significant, len(rows) - 1)}."
    if not pooled.degrees:
        test = "Test: paired bootstrap over the test examples, adjusted for all comparisons."
        return [f"{summary} {test}", ONE_SEED]
    sentences = [f"{summary} {_seed_test(rows, pooled)}", *_single_seeds(rows), *_outlying(ranking)]
    sentences += _both_sources(ranking)
    difference = rows[1].difference
    if ranking.undecided and difference is not None and difference.test != EXAMPLES:
        advice = "With more seeds smaller differences become significant"
        is_second_undecided = ranking.undecided[0] is rows[1] and difference.difference > 0
        if is_second_undecided and pooled.is_homogeneous and pooled.outlying.isdisjoint((0, 1)):
            advice = _seed_advice(seeds_needed(difference.difference, pooled, len(rows)))
        sentences.append(f"{advice}: add some to `seed=` and run the same command; finished jobs are skipped.")
    return sentences


def _seed_test(rows: Sequence[RankedSetting], pooled: PooledVariance) -> str:
    if pooled.levene_p is not None and not pooled.is_homogeneous:
        return (
            f"The variance over seeds differs between settings (Levene's test, {p_text(pooled.levene_p)}). Test: "
            "Games-Howell, with the variances of each pair, adjusted for all pairs."
        )
    degrees = f"{pooled.degrees} {'degree' if pooled.degrees == 1 else 'degrees'} of freedom"
    test = "Student's t" if len(rows) == 2 else "Dunnett's, of each setting against all settings"
    return f"Test: {test} over seeds, pooled variance ({degrees})."


def _single_seeds(rows: Sequence[RankedSetting]) -> list[str]:
    """How many settings have no variance of their own."""
    count = sum(len(row.values) == 1 for row in rows)
    sentence = f"{count} of {len(rows)} settings have one seed: the tests take the variance of the others for theirs."
    return [sentence] if count else []


def _outlying(ranking: Ranking) -> list[str]:
    """Which settings have a variance of their own."""
    names = [ranking.name(ranking.rows[rank]) for rank in sorted(ranking.pooled.outlying)]
    if not names or not ranking.pooled.is_homogeneous:
        return []
    return [
        f"Seeds differ far more in {first_few(names)} than in the rest (Cochran's test); their variance is not pooled."
    ]


def _both_sources(ranking: Ranking) -> list[str]:
    """Intervals over seeds and test examples, of the second setting, or of those that could then lead."""
    rows, text = ranking.rows[1:], ranking.metric.format
    doubtful = [] if ranking.undecided else [row for row in rows if _is_open(row.both_sources)]
    parts = [
        f"{ranking.name(row)} is behind by {' to '.join(map(text, row.both_sources))}"
        for row in doubtful[:MAX_NAMES] or rows[:1]
        if row.both_sources
    ]
    method = "over other seeds and other test examples (bootstrap over both, 95 % interval, one comparison)"
    return [f"{'; '.join(parts)} {method}."] if parts else []


def _is_open(interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] <= 0


def _seed_advice(count: SeedCount) -> str:
    """The number of seeds that would separate the first two settings, with its interval."""
    effect = "would separate the first two settings with a power of 80 %, if they differ as much as measured"
    if count.likely is None:
        low = "" if count.low is None else f" ({count.low} or more, 95 % interval)"
        return f"More than {MAX_SEEDS} seeds{low} {effect}"
    high = f"more than {MAX_SEEDS}" if count.high is None else str(count.high)
    return f"About {count.likely} seeds ({count.low} to {high}, 95 % interval) {effect}"


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


def unequal_conditions(runs: Sequence[RunRecord], metric: Metric | None) -> list[str]:
    """A sentence for each condition in which runs differ, with the rank correlation of the main metric and steps."""
    sentences = _unequal_steps(runs, metric)
    if (data_sets := len({str(run.choices[DATA]) for run in runs if DATA in run.choices})) > 1:
        sentences.append(
            f"The runs were trained on {data_sets} different data sets: a difference may come from the data, not from "
            "the settings."
        )
    return sentences


def _unequal_steps(runs: Sequence[RunRecord], metric: Metric | None) -> list[str]:
    counts = [int(run.results[STEPS]) for run in runs if STEPS in run.results]
    if len(set(counts)) < 2:
        return []
    if {run.budget for run in runs} == {"time"}:
        fact = "All runs had the same training time, but not the same number of steps"
        caveat = "the ranking includes what a setting costs on the machine that it ran on"
    else:
        fact = "The runs did not train for the same number of steps"
        caveat = "a difference may come from the training, not from the settings"
    return [f"{fact} ({min(counts):,} to {max(counts):,}): {caveat}{_correlation(runs, metric)}."]


def _correlation(runs: Sequence[RunRecord], metric: Metric | None) -> str:
    """The rank correlation of steps and metric, if it is significant."""
    if metric is None:
        return ""
    values = {index: value for index, run in enumerate(runs) if (value := run_value(run, metric.key)) is not None}
    steps = {index: run.results[STEPS] for index, run in enumerate(runs) if STEPS in run.results}
    result = rank_correlation(steps, values)
    if result is None or permutation_p(steps, values) >= SIGNIFICANCE_LEVEL:
        return ""
    return f" (steps and {metric.label}: rank correlation {result.correlation:+.2f})"


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

"""Conclusions in sentences: which setting is best, by how much, and whether the difference is significant."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.reports.stats.mean_difference import EXAMPLES, SIGNIFICANCE_LEVEL
from attnx.reports.stats.multiple_comparisons import PooledVariance
from attnx.reports.stats.seed_count import MAX_SEEDS, SeedCount, seeds_needed
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import Setting

MAX_NAMES = 3  # settings named in one sentence
ONE_SEED = (
    "With one seed each, this compares the trained weights, not the settings: other seeds may give another order. "
    "Train with `seed=1,2,3` to compare the settings."
)
EXAMPLES_TEST = "Test: paired bootstrap over the test examples, adjusted for all comparisons."


def has_winner(rows: Sequence[RankedSetting], pooled: PooledVariance) -> bool:
    """Whether the first setting won: there are several seeds, and all differences from it are significant."""
    return bool(pooled.degrees) and len(rows) > 1 and not _candidates(rows)


def conclude(
    settings: Sequence[Setting], rows: Sequence[RankedSetting], pooled: PooledVariance, measure: Measure
) -> list[str]:
    """The conclusions as sentences, with names in double asterisks; the first names the winner, if there is one."""
    if not rows:
        return [f"No finished run has {measure.label}."]
    best, *followers = rows
    name, value = f"**{settings[best.setting].name}**", _value(best, measure)
    if not followers:
        return [f"There is only one setting, so there is nothing to compare: {value}."]
    if all(row.difference is None for row in followers):
        reason = "there is one seed each, and no predictions to count this metric from"
        if pooled.degrees:
            reason = "no setting varies over its seeds"
        return [
            f"{name} is first with {value}, but the differences cannot be tested: {reason}.",
            "Train each setting with several seeds, `seed=1,2,3`.",
        ]
    candidates = _candidates(rows)
    if candidates:
        first = _undecided(settings, candidates, measure, name, value)
    else:
        first = _decided(settings, rows, pooled, measure, value)
    return [first, *_tests(settings, rows, pooled, measure)]


def _candidates(rows: Sequence[RankedSetting]) -> list[RankedSetting]:
    """Settings after the first that do not differ significantly from it."""
    return [row for row in rows[1:] if row.difference is None or row.difference.p >= SIGNIFICANCE_LEVEL]


def _decided(
    settings: Sequence[Setting], rows: Sequence[RankedSetting], pooled: PooledVariance, measure: Measure, value: str
) -> str:
    difference = rows[1].difference
    assert difference is not None, "the settings would be undecided"
    name, follower = (f"**{settings[row.setting].name}**" for row in rows[:2])
    interval = f"95 % interval {measure.format(difference.low)} to {measure.format(difference.high)}"
    lead = f"{measure.format(difference.difference)} better than {follower} ({interval}, {p_text(difference.p)})"
    if not pooled.degrees:
        return f"The weights of {name} score best on these test examples: {value}, {lead}."
    scope = " on these test examples" if any(_is_open(row.both_sources) for row in rows) else ""
    return f"{name} won{scope}: {value}, {lead}."


def _undecided(
    settings: Sequence[Setting], candidates: Sequence[RankedSetting], measure: Measure, name: str, value: str
) -> str:
    names = "; ".join(f"**{settings[row.setting].name}**{_difference(row, measure)}" for row in candidates[:MAX_NAMES])
    surplus = len(candidates) - MAX_NAMES
    names += f"; and {surplus} more" if surplus > 0 else ""
    return f"No winner: {name} is first with {value}, but not significantly better than {names}."


def _difference(row: RankedSetting, measure: Measure) -> str:
    if row.difference is None:
        return ""
    return f" ({measure.format(row.difference.difference)} behind, {p_text(row.difference.p)})"


def _tests(
    settings: Sequence[Setting], rows: Sequence[RankedSetting], pooled: PooledVariance, measure: Measure
) -> list[str]:
    candidates, followers = _candidates(rows), len(rows) - 1
    significant = followers - len(candidates)
    verb = "is" if significant else "is not"
    summary = f"It {verb} significantly better (p < {SIGNIFICANCE_LEVEL}) than {_count(significant, followers)}."
    if not pooled.degrees:
        return [f"{summary} {EXAMPLES_TEST}", ONE_SEED]
    sentences = [f"{summary} {_seed_test(rows, pooled)}", *_both_sources(settings, rows, measure)]
    difference = rows[1].difference
    if candidates and difference is not None and difference.test != EXAMPLES:
        advice = "With more seeds smaller differences become significant"
        if difference.difference > 0 and pooled.is_homogeneous:
            advice = _seed_advice(seeds_needed(difference.difference, pooled, len(rows)))
        sentences.append(f"{advice}: add some to `seed=` and run the same command; finished jobs are skipped.")
    return sentences


def _seed_test(rows: Sequence[RankedSetting], pooled: PooledVariance) -> str:
    if not pooled.is_homogeneous:
        assert pooled.levene_p is not None, "only Levene's test rejects equal variances"
        return (
            f"The variance over seeds differs between settings (Levene's test, {p_text(pooled.levene_p)}). Test: "
            "Games-Howell, with the variances of each pair, adjusted for all pairs."
        )
    degrees = f"{pooled.degrees} {'degree' if pooled.degrees == 1 else 'degrees'} of freedom"
    if len(rows) == 2:
        return f"Test: Student's t over seeds, pooled variance ({degrees})."
    return f"Test: Dunnett's, of each setting against all settings over seeds, pooled variance ({degrees})."


def _both_sources(settings: Sequence[Setting], rows: Sequence[RankedSetting], measure: Measure) -> list[str]:
    """Intervals over seeds and test examples, of the second setting, or of those that could then lead."""
    doubtful = [] if _candidates(rows) else [row for row in rows[1:] if _is_open(row.both_sources)]
    parts = [
        f"**{settings[row.setting].name}** is behind by {measure.format(low)} to {measure.format(high)}"
        for row in doubtful[:MAX_NAMES] or rows[1:2]
        if row.both_sources
        for low, high in [row.both_sources]
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


def _value(row: RankedSetting, measure: Measure) -> str:
    unit = " %" if measure.unit.startswith("%") else ""
    if row.sd is None:
        return f"{measure.label} {measure.format(row.mean)}{unit} with one seed"
    return f"{measure.label} {measure.format(row.mean)} ± {measure.format(row.sd)}{unit} over {len(row.values)} seeds"


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

"""Says in plain sentences which setting won, by how much, how surely, and over how many seeds."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.reports.stats.mean_difference import EXAMPLES, LEVEL
from attnx.reports.stats.multiple_comparisons import Spread
from attnx.reports.stats.seed_count import MOST, SeedCount, seeds_needed
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import Setting

NAMED = 3  # settings that are named where several cannot be told from the best
ONE_SEED = (
    "With one seed each this is about these trained weights, not about the choice: other seeds may end otherwise. "
    "Train with `seed=1,2,3` to learn about the choice."
)
BY_EXAMPLES = "The test: paired bootstrap over the test examples, the largest of all differences allowed for."


def is_won(rows: Sequence[RankedSetting], spread: Spread) -> bool:
    """Whether the first setting won: several seeds were trained, and all others are surely behind."""
    return bool(spread.degrees) and len(rows) > 1 and not _candidates(rows)


def verdict(settings: Sequence[Setting], rows: Sequence[RankedSetting], spread: Spread, measure: Measure) -> list[str]:
    """The sentences, with names between double asterisks; the first says which won, or that it cannot be told."""
    if not rows:
        return [f"No finished run was measured by {measure.label}, so nothing can be said."]
    best, *others = rows
    name, value = f"**{settings[best.place].name}**", _value(best, measure)
    if not others:
        return [f"There is one setting, {name}, and nothing to compare it with: {value}."]
    if all(row.behind is None for row in others):
        reason = "with one seed each and no predictions that this measure can be counted from again"
        if spread.degrees:
            reason = "no setting varies over its seeds"
        return [f"{name} is first with {value}, but how surely cannot be told: {reason}.", _train_more()]
    candidates = _candidates(rows)
    if candidates:
        first = _undecided(settings, candidates, measure, name, value)
    else:
        first = _decided(settings, rows, spread, measure, name, value)
    return [first, *_how(settings, rows, spread, measure)]


def _candidates(rows: Sequence[RankedSetting]) -> list[RankedSetting]:
    """Settings behind the first that may be as good."""
    return [row for row in rows[1:] if row.behind is None or row.behind.p >= LEVEL]


def _decided(
    settings: Sequence[Setting], rows: Sequence[RankedSetting], spread: Spread, measure: Measure, name: str, value: str
) -> str:
    gap = rows[1].behind
    assert gap is not None, "else it would not be decided"
    lead = f"{measure.said(gap.difference)} better than the next, **{settings[rows[1].place].name}**"
    interval = f"(95 % interval {measure.said(gap.low)} to {measure.said(gap.high)}, {said_p(gap.p)})"
    if not spread.degrees:
        return f"The weights of {name} score best on these test examples: {value}, {lead} {interval}."
    where = " on these test examples" if any(_is_open(row.both_sources) for row in rows) else ""
    return f"{name} won{where}: {value}, {lead} {interval}."


def _undecided(
    settings: Sequence[Setting], equals: Sequence[RankedSetting], measure: Measure, name: str, value: str
) -> str:
    told = [f"**{settings[row.place].name}**{_short_gap(row, measure)}" for row in equals[:NAMED]]
    more = len(equals) - NAMED
    several = "; ".join(told) + (f"; and {more} more" if more > 0 else "")
    return f"No winner can be named: {name} is first with {value}, but it cannot be told from {several}."


def _short_gap(row: RankedSetting, measure: Measure) -> str:
    return f" ({measure.said(row.behind.difference)} behind, {said_p(row.behind.p)})" if row.behind else ""


def _how(settings: Sequence[Setting], rows: Sequence[RankedSetting], spread: Spread, measure: Measure) -> list[str]:
    others, candidates = rows[1:], _candidates(rows)
    clear = len(others) - len(candidates)
    better = "clearly better" if clear else "not clearly better"
    said = f"It is {better} (p < {LEVEL}) than {_of(clear, len(others))}."
    if not spread.degrees:
        return [f"{said} {BY_EXAMPLES}", ONE_SEED]
    found = [f"{said} {_test(rows, spread)}", *_both_sources(settings, rows, measure)]
    gap = rows[1].behind
    if candidates and gap is not None and gap.test != EXAMPLES:
        enough = "More seeds tell smaller differences"
        if gap.difference > 0 and spread.is_equal:
            enough = _enough(seeds_needed(gap.difference, spread, len(rows)))
        found.append(f"{enough}: add some to `seed=` and give the command again; what is done is kept.")
    return found


def _test(rows: Sequence[RankedSetting], spread: Spread) -> str:
    if not spread.is_equal:
        assert spread.levene_p is not None, "else nothing says that spreads differ"
        return (
            f"Settings spread differently over seeds (Levene's test, {said_p(spread.levene_p)}), so each difference "
            "has its own variance: the test is Games and Howell's, which allows for all pairs."
        )
    of = "degree" if spread.degrees == 1 else "degrees"
    if len(rows) == 2:
        return f"The test: Student's t over seeds, the variance pooled ({spread.degrees} {of} of freedom)."
    return (
        f"The test: Dunnett's of each setting against all others, the variance over seeds pooled over settings "
        f"({spread.degrees} {of} of freedom)."
    )


def _both_sources(settings: Sequence[Setting], rows: Sequence[RankedSetting], measure: Measure) -> list[str]:
    """How far the next is behind on other test examples, too; of a winner all whose lead is then open."""
    doubtful = [] if _candidates(rows) else [row for row in rows[1:] if _is_open(row.both_sources)]
    parts = [
        f"**{settings[row.place].name}** is behind by {measure.said(low)} to {measure.said(high)}"
        for row in doubtful[:NAMED] or rows[1:2]
        if row.both_sources
        for low, high in [row.both_sources]
    ]
    method = "with other test examples as well as other seeds (bootstrap over both, 95 % interval, one comparison)"
    return [f"{'; '.join(parts)} {method}."] if parts else []


def _is_open(interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] <= 0


def _enough(count: SeedCount) -> str:
    """How many seeds would tell the first two apart, and how sure that is."""
    apart = "would tell the first two apart in four of five sweeps, if they truly are as far apart as they look"
    if count.likely is None:
        low = "" if count.low is None else f" ({count.low} or more, as far as the spread is known)"
        return f"More than {MOST} seeds{low} {apart}"
    high = f"more than {MOST}" if count.high is None else str(count.high)
    return f"About {count.likely} seeds ({count.low} to {high}, as far as the spread is known) {apart}"


def _of(clear: int, others: int) -> str:
    if others == 1:
        return "the other"
    if not clear:
        return f"any of the {others} others"
    return f"each of the {others} others" if clear == others else f"{clear} of the {others} others"


def _value(row: RankedSetting, measure: Measure) -> str:
    unit = " %" if measure.unit.startswith("%") else ""
    if row.sd is None:
        return f"{measure.label} {measure.said(row.mean)}{unit} with one seed"
    return f"{measure.label} {measure.said(row.mean)} ± {measure.said(row.sd)}{unit} over {len(row.values)} seeds"


def _train_more() -> str:
    return "Train each with several seeds, `seed=1,2,3`, to know."


def said_p(p: float) -> str:
    """A p-value as it is written.

    >>> said_p(0.0004), said_p(0.0312), said_p(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    number = p_value(p)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def p_value(p: float) -> str:
    """The number alone, for a table.

    >>> p_value(0.0004), p_value(0.0312), p_value(0.4)
    ('< 0.001', '0.031', '0.40')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"

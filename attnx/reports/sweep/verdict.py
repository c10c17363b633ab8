"""Says in plain sentences which setting won, by how much, how surely, and over how many seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnx.reports.seeds import APART, EXAMPLES, LEVEL, PAIRED, student_quantile
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.ranking import Ranked
from attnx.reports.sweep.settings import Setting

TESTS = {
    PAIRED: "paired t-test over the seeds that both were trained with",
    APART: "Welch's t-test, since they were trained with different seeds",
    EXAMPLES: "paired bootstrap over the test examples, since there is one seed",
}
MOST = 50  # seeds that anybody would train
NAMED = 3  # settings that are named where several cannot be told from the best
ONE_SEED = (
    "One seed says how sure this is for these trained models on this kind of test data; it does not say whether other "
    "seeds would end alike. Train with `seed=1,2,3` to know."
)


def verdict(settings: Sequence[Setting], rows: Sequence[Ranked], measure: Measure) -> list[str]:
    """The sentences, with names between double asterisks; the first says which won, or that it cannot be told."""
    if not rows:
        return [f"No finished run was measured by {measure.label}, so nothing can be said."]
    best, *others = rows
    name, value = f"**{settings[best.place].name}**", _value(best, measure)
    if not others:
        return [f"There is one setting, {name}, and nothing to compare it with: {value}."]
    if all(row.behind is None for row in others):
        reason = "with one seed each and no predictions that this measure can be counted from again"
        return [f"{name} is first with {value}, but how surely cannot be told: {reason}.", _train_more()]
    equals = [row for row in others if row.behind is None or row.behind.p >= LEVEL]
    said = _undecided(settings, equals, measure, name, value) if equals else _won(settings, rows, measure, name, value)
    return [said, *_how(best, others, equals)]


def _won(settings: Sequence[Setting], rows: Sequence[Ranked], measure: Measure, name: str, value: str) -> str:
    next_best = rows[1]
    assert next_best.behind is not None, "else it would not have won"
    gap = next_best.behind
    other = f"**{settings[next_best.place].name}**"
    interval = f"95 % interval {measure.said(gap.low)} to {measure.said(gap.high)}, {said_p(gap.p)}"
    where = " on these test examples" if gap.test == EXAMPLES else ""
    return f"{name} won{where}: {value}, {measure.said(gap.difference)} better than the next, {other} ({interval})."


def _undecided(settings: Sequence[Setting], equals: Sequence[Ranked], measure: Measure, name: str, value: str) -> str:
    told = [f"**{settings[row.place].name}**{_short_gap(row, measure)}" for row in equals[:NAMED]]
    more = len(equals) - NAMED
    several = "; ".join(told) + (f"; and {more} more" if more > 0 else "")
    return f"No winner can be named: {name} is first with {value}, but it cannot be told from {several}."


def _short_gap(row: Ranked, measure: Measure) -> str:
    return f" ({measure.said(row.behind.difference)} behind, {said_p(row.behind.p)})" if row.behind else ""


def _how(best: Ranked, others: Sequence[Ranked], equals: Sequence[Ranked]) -> list[str]:
    tests = dict.fromkeys(row.behind.test for row in others if row.behind)
    number = sum(row.behind is not None for row in others)
    corrected = f"; p-values are corrected for {number} comparisons (Holm)" if number > 1 else ""
    clear = len(others) - len(equals)
    better = "clearly better" if clear else "not clearly better"
    said = f"It is {better} (p < {LEVEL}) than {_of(clear, len(others))}." if number else ""
    method = "; ".join(TESTS[test] for test in tests)
    found = [f"{said} The test: {method}{corrected}."]
    if EXAMPLES in tests:
        found.append(ONE_SEED)
    elif equals:
        found.append(f"{_enough(best, others)}: add some to `seed=` and give the command again; what is done is kept.")
    return found


def _enough(best: Ranked, others: Sequence[Ranked]) -> str:
    """How many seeds would tell the first two apart, if they differed and were spread as they are."""
    gap, number = others[0].behind, len(best.values)
    if gap is None or gap.test != PAIRED or gap.difference <= 0:
        return "More seeds tell smaller differences"
    seeds = len(best.values.keys() & others[0].values.keys())
    spread = (gap.high - gap.difference) / student_quantile(seeds - 1) * math.sqrt(seeds)
    level = LEVEL / len(others)
    enough = (n for n in range(number + 1, MOST) if _tells(n, level, gap.difference / spread))
    if (first := next(enough, None)) is None:
        return f"More than {MOST} seeds would be needed to tell the first two apart"
    return f"About {first} seeds would tell the first two apart, if they stay as far apart as they are"


def _tells(seeds: int, level: float, effect: float) -> bool:
    """Whether so many seeds would tell a difference, measured in its own sd."""
    return student_quantile(seeds - 1, level) < effect * math.sqrt(seeds)


def _of(clear: int, others: int) -> str:
    if others == 1:
        return "the other"
    if not clear:
        return f"any of the {others} others"
    return f"each of the {others} others" if clear == others else f"{clear} of the {others} others"


def _value(row: Ranked, measure: Measure) -> str:
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
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"

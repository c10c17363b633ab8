"""The report in Markdown: the sentences, the ranking, what each choice does, and what did not finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attnx.files.parse_number import count_of
from attnx.files.printable import printable
from attnx.reports.stats.anova import FTest
from attnx.reports.stats.mean_difference import MeanDifference
from attnx.reports.sweep.comparison import Comparison, MetricComparison
from attnx.reports.sweep.conclusions import p_value
from attnx.reports.sweep.conditions import steps_of
from attnx.reports.sweep.effects import Interaction
from attnx.reports.sweep.load_runs import RunRecord
from attnx.reports.sweep.measures import Measure
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import short
from attnx.runs.status import RunStatus

NOTHING = "No run is finished, so there is nothing to compare."
UNMEASURED = "These runs have no measure of which it is known whether more is better."


def markdown(title: str, found: Sequence[RunRecord], compared: Sequence[Comparison]) -> str:
    """The whole of it."""
    sections = [f"# {title}: report", counted(found)]
    if not compared:
        sections.append(NOTHING)
    if len(compared) > 1:
        sections.append(f"They were tested on {len(compared)} different data, which are not compared with each other.")
    for one in compared:
        sections += [f"## {one.title[0].upper()}{one.title[1:]}", *_compared(one)]
    if failed := [run for run in found if run.status != RunStatus.FINISHED]:
        sections += ["## Not finished", "\n".join(map(_failure, failed))]
    return printable("\n\n".join(sections) + "\n", keep="\n")


def counted(found: Sequence[RunRecord]) -> str:
    """How many runs there are, and how they ended."""
    each = Counter(run.status for run in found)
    return f"{count_of(len(found), 'run')}: " + ", ".join(f"{number} {status}" for status, number in each.items()) + "."


def _failure(run: RunRecord) -> str:
    because = f": {_cell(run.error)}" if run.error else ""
    return f"- {_cell(run.label)}: {run.status}{because}" + (f"; see `{run.log}`" if run.log else "")


def _compared(one: Comparison) -> Iterator[str]:
    if not one.judged:
        yield UNMEASURED
        return
    main = one.judged[0]
    yield "\n\n".join(main.verdict)
    head = [
        "rank",
        *short(one.keys),
        main.measure.label,
        "sd",
        "seeds",
        "steps",
        "behind the best",
        "95 % interval",
        "p",
    ]
    yield _table(head, (_ranked(one, main, rank, row) for rank, row in enumerate(main.rows, start=1)))
    if one.again:
        left_out = "is left out" if one.again == 1 else "are left out"
        yield f"{count_of(one.again, 'earlier run')} with the same setting and seed as a later one {left_out}."
    if main.effects and len(main.rows) > 1:
        yield "### What each choice does"
        yield f"Means of {main.measure.label} over all values of the other choices alike (main effects, least squares)."
        head = ["choice", "value", "mean", "95 % interval", "behind the best value", "95 % interval", "p", "settings"]
        yield _table(head, _levels(main))
    if tests := list(_tests(main)):
        error = "the spread over seeds" if main.spread.degrees else "what the fit leaves over, since there is one seed"
        yield f"F-tests: whether a choice's values differ, and whether what it does depends on another; by {error}."
        yield _table(["choice", "F", "degrees of freedom", "p", "together more than by themselves, at most"], tests)


def _ranked(one: Comparison, main: MetricComparison, rank: int, row: RankedSetting) -> list[str]:
    said, setting = main.measure.said, one.settings[row.place]
    measured = [said(row.mean), "" if row.sd is None else said(row.sd), str(len(row.values)), steps_of(setting.runs)]
    return [str(rank), *setting.values, *measured, *_behind(row.behind, main.measure)]


def _behind(gap: MeanDifference | None, measure: Measure) -> list[str]:
    """The difference, its interval and p; empty cells if there is none."""
    if gap is None:
        return ["", "", ""]
    interval = f"{measure.said(gap.low)} to {measure.said(gap.high)}"
    return [measure.said(gap.difference), interval, p_value(gap.p)]


def _levels(main: MetricComparison) -> Iterator[list[str]]:
    said = main.measure.said
    for effect in main.effects:
        for value, mean, low, high, number, behind in effect.levels:
            interval = "" if low is None or high is None else f"{said(low)} to {said(high)}"
            cells = [effect.name, value, "" if mean is None else said(mean), interval]
            yield [*cells, *_behind(behind, main.measure), str(number)]


def _tests(main: MetricComparison) -> Iterator[list[str]]:
    for effect in main.effects:
        if effect.test is not None:
            yield [effect.name, *_cells(effect.test), ""]
    for pair in main.interactions:
        yield [" by ".join(pair.names), *_cells(pair.test), _deviation(pair, main.measure)]


def _cells(test: FTest) -> list[str]:
    return [f"{test.f:.2f}", f"{test.degrees} and {test.error_degrees}", p_value(test.p)]


def _deviation(pair: Interaction, measure: Measure) -> str:
    if pair.values is None or pair.deviation is None:
        return ""
    mean, low, high = map(measure.said, pair.deviation)
    return f"{', '.join(pair.values)}: {mean} ({low} to {high})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_line(head), "|" + "---|" * len(head), *map(_line, rows)])


def _line(fields: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, fields)) + " |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())

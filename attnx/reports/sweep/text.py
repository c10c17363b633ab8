"""The report in Markdown: the sentences, the ranking, what each choice does, and what did not finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attnx.numerals import count_of
from attnx.printable import printable
from attnx.reports.sweep.comparison import FINISHED, Comparison, Judged
from attnx.reports.sweep.gather import Found
from attnx.reports.sweep.ranking import Ranked
from attnx.reports.sweep.settings import short
from attnx.reports.sweep.verdict import said_p

NOTHING = "No run is finished, so there is nothing to compare."
UNMEASURED = "These runs have no measure of which it is known whether more is better."


def markdown(title: str, found: Sequence[Found], compared: Sequence[Comparison]) -> str:
    """The whole of it."""
    sections = [f"# {title}: report", counted(found)]
    if not compared:
        sections.append(NOTHING)
    if len(compared) > 1:
        sections.append(f"They were tested on {len(compared)} different data, which are not compared with each other.")
    for one in compared:
        sections += [f"## {one.title[0].upper()}{one.title[1:]}", *_compared(one)]
    if failed := [run for run in found if run.status != FINISHED]:
        sections += ["## Not finished", "\n".join(map(_failure, failed))]
    return printable("\n\n".join(sections) + "\n", keep="\n")


def counted(found: Sequence[Found]) -> str:
    """How many runs there are, and how they ended."""
    each = Counter(run.status for run in found)
    return f"{count_of(len(found), 'run')}: " + ", ".join(f"{number} {status}" for status, number in each.items()) + "."


def _failure(run: Found) -> str:
    because = f": {_cell(run.error)}" if run.error else ""
    return f"- {_cell(run.told)}: {run.status}{because}" + (f"; see `{run.log}`" if run.log else "")


def _compared(one: Comparison) -> Iterator[str]:
    if not one.judged:
        yield UNMEASURED
        return
    main = one.judged[0]
    yield "\n\n".join(main.verdict)
    head = ["rank", *short(one.keys), main.measure.label, "sd", "seeds", "behind the best", "p"]
    yield _table(head, (_ranked(one, main, rank, row) for rank, row in enumerate(main.rows, start=1)))
    if one.again:
        left_out = "is left out" if one.again == 1 else "are left out"
        yield f"{count_of(one.again, 'earlier run')} with the same setting and seed as a later one {left_out}."
    if main.effects and len(main.rows) > 1:
        yield "### What each choice does"
        yield f"Means of {main.measure.label} over all values of the other choices alike (main effects, least squares)."
        yield _table(["choice", "value", "mean", "95 % interval", "settings"], _levels(main))


def _ranked(one: Comparison, main: Judged, rank: int, row: Ranked) -> list[str]:
    said, gap = main.measure.said, row.behind
    measured = [said(row.mean), "" if row.sd is None else said(row.sd), str(len(row.values))]
    behind = [said(gap.difference), said_p(gap.p).removeprefix("p ").removeprefix("= ")] if gap else ["", ""]
    return [str(rank), *one.settings[row.place].values, *measured, *behind]


def _levels(main: Judged) -> Iterator[list[str]]:
    said = main.measure.said
    for effect in main.effects:
        for value, mean, low, high, number in effect.levels:
            interval = "" if low is None or high is None else f"{said(low)} to {said(high)}"
            yield [effect.name, value, "" if mean is None else said(mean), interval, str(number)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_line(head), "|" + "---|" * len(head), *map(_line, rows)])


def _line(fields: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, fields)) + " |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())

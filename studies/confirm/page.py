"""The tables of docs/which-attention.md that the confirmation writes: what to take, and what was asked and found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import yaml

from attnx.config.suite_file import Suite
from attnx.reports.markdown import table
from attnx.reports.significant_digits import p_text
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.suite.standings import Entry, Standings, row_of
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.run_record import RunRecord
from studies.confirm.comparisons import Compared, Planned, Runs, compare

ADVICE_HEAD = ("your problem", "take", "it reaches", "how much better", "how sure", "at what cost")
FOUND_HEAD = ("task", "question", "expected", "found", "ratio of errors", "p")
CPU_SECONDS, PARAMETERS = "train_cpu_seconds", "parameters"


def fill_page(page: str, suites: Sequence[Suite], planned: Sequence[Planned], runs: Runs, problems: Path) -> str:
    """The page with each of its tables, which stand between ``<!-- NAME -->`` and ``<!-- end -->``, made anew."""
    tables = {
        "confirmed": table(ADVICE_HEAD, advice_rows(suites, runs, problems)),
        "questions": table(FOUND_HEAD, [_found_row(one) for one in compare(planned, runs)]),
    }
    for name, text in tables.items():
        start, end = f"<!-- {name} -->\n\n", "\n\n<!-- end -->"
        head, _, tail = page.partition(start)
        page = f"{head}{start}{text}{end}{tail.partition(end)[2]}"
    return page


def rank_tasks(suites: Sequence[Suite], runs: Runs) -> dict[str, Ranking]:
    """The settings of each ``SUITE/TASK`` that has counted runs, best first."""
    rankings = {}
    for suite in suites:
        entries = [
            Entry(task, name, words, runs.get((f"{suite.name}/{task}", name), []))
            for task in suite.tasks
            for name, words in suite.baselines.items()
        ]
        for task, ranking in Standings(suite, entries).rankings.items():
            rankings[f"{suite.name}/{task}"] = ranking
    return rankings


def advice_rows(suites: Sequence[Suite], runs: Runs, problems: Path) -> list[list[str]]:
    """A row for each problem whose task is whole: the suite's first setting, or the best one if it is better than that.

    What is better is decided by the differences from the best, adjusted for all settings of the task; how much better
    than ``against`` by Welch's test, adjusted for all rows. Where ``against`` is what would be taken, there is no row.
    """
    rankings, defaults = rank_tasks(suites, runs), {suite.name: next(iter(suite.baselines)) for suite in suites}
    sizes = {f"{suite.name}/{task}": len(suite.baselines) for suite in suites for task in suite.tasks}
    entries = [
        entry
        for entry in yaml.safe_load(problems.read_text(encoding="utf-8"))
        if entry["task"] in rankings and len(rankings[entry["task"]].rows) == sizes[entry["task"]]
    ]
    taken = {entry["task"]: _take(rankings[entry["task"]], defaults[entry["task"].split("/")[0]]) for entry in entries}
    asked = [Planned(entry["task"], taken[entry["task"]], entry["against"], "better", "") for entry in entries]
    compared = {one.planned.task: one for one in compare(asked, runs)}
    return [
        _advice_row(entry["problem"], compared[entry["task"]], rankings[entry["task"]], runs)
        for entry in entries
        if entry["task"] in compared and taken[entry["task"]] != entry["against"]
    ]


def _take(ranking: Ranking, default: str) -> str:
    row = row_of(ranking, default)
    is_worse = row is not None and row.difference is not None and row.difference.p < SIGNIFICANCE_LEVEL
    return ranking.settings[ranking.rows[0].setting].name if is_worse or row is None else default


def _advice_row(problem: str, compared: Compared, ranking: Ranking, runs: Runs) -> list[str]:
    planned, (reached, other), (low, high) = compared.planned, compared.means, compared.interval
    row = row_of(ranking, planned.first)
    interval = f" ({ranking.metric.interval_cell(*row.interval)})" if row is not None and row.interval else ""
    against = f"{planned.second}: {ranking.metric.format(other)}"
    equals = 1 + len(ranking.undecided)
    among = "better than all others" if equals == 1 else f"one of {equals} that cannot be told from the best"
    return [
        f"{problem}: `{planned.task}`",
        f"`{planned.first}`",
        f"{compared.metric} {ranking.metric.format(reached)}{interval}",
        f"{against}; {compared.ratio:.2f} times the error ({low:.2f} to {high:.2f})",
        f"{p_text(compared.p)}; {among}",
        _cost(runs[planned.task, planned.first], runs[planned.task, planned.second]),
    ]


def _cost(own: Sequence[RunRecord], other: Sequence[RunRecord]) -> str:
    seconds, others = (_mean(group, CPU_SECONDS) for group in (own, other))
    parameters = _mean(own, PARAMETERS)
    return f"{seconds:.0f} s of a core, {seconds / others:.1f} times; {parameters:,.0f} parameters"


def _mean(runs: Sequence[RunRecord], key: str) -> float:
    return fmean(run.results[key] for run in runs if key in run.results)


def _found_row(one: Compared) -> list[str]:
    planned, (low, high) = one.planned, one.interval
    metric = f", {one.metric}" if planned.metric else ""
    question = f"`{planned.first}` against `{planned.second}`{metric}"
    found = one.found if one.found == planned.expected else f"**{one.found}**"
    ratio = f"{one.ratio:.2f} ({low:.2f} to {high:.2f})"
    return [planned.task, question, f"{planned.expected}: {planned.source}", found, ratio, p_text(one.p)]

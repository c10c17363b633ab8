"""What the confirmation writes into docs/which-attention.md.

That is what to take, what settings do on several tasks, what was asked and found, and what of the screening holds.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import yaml

from attnx.config.suite_file import Suite
from attnx.files.printable import markdown_table
from attnx.reports.significant_digits import digits_for, p_text
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.suite.standings import row_of
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.run_record import RunRecord
from studies.confirm.beyond import BEYOND_HEAD, beyond_rows, standings_by_task
from studies.confirm.comparisons import BETTER, EQUAL, WORSE, Compared, Planned, Runs, compare
from studies.confirm.repeats import REPEAT_HEAD, repeat_rows
from studies.page_tables import replace_tables

ADVICE_HEAD = ("your problem", "take", "it reaches", "how much better", "how sure", "at what cost")
FOUND_HEAD = ("task", "question", "expected", "found", "ratio of errors", "p")
CPU_SECONDS, PARAMETERS = "train_cpu_seconds", "parameters"


def fill_page(
    page: str,
    suites: Sequence[Suite],
    answers: Sequence[Compared],
    runs: Runs,
    uncounted: Sequence[Runs],
    problems: Path,
) -> str:
    """The page with its tables made anew; ``uncounted`` are the runs of equal seeds, and those of rates beyond."""
    rows, notes = advice_rows(suites, runs, problems)
    repeated, beyond = uncounted
    texts = {
        "confirmed": "\n\n".join([markdown_table(ADVICE_HEAD, rows), *notes]),
        "common": "\n\n".join(common_tables(suites, runs)),
        "questions": markdown_table(FOUND_HEAD, [_found_row(one) for one in answers]),
        "expectations": expectations_text(answers),
        "beyond": markdown_table(BEYOND_HEAD, beyond_rows(suites, runs, beyond)),
        "repeats": markdown_table(REPEAT_HEAD, repeat_rows(suites, runs, repeated)),
    }
    return replace_tables(page, texts)


def rank_tasks(suites: Sequence[Suite], runs: Runs) -> dict[str, Ranking]:
    """The settings of each ``SUITE/TASK`` that has counted runs, best first."""
    return {
        f"{suite.name}/{task}": ranking
        for suite in suites
        for task, standings in standings_by_task(suite, runs).items()
        for ranking in standings.rankings.values()
    }


def advice_rows(suites: Sequence[Suite], runs: Runs, problems: Path) -> tuple[list[list[str]], list[str]]:
    """A row for each problem whose task is whole, and sentences on what these rows leave out.

    They name the tasks whose advice would be ``against`` itself, and the ``untrained`` settings, with the reason why a
    task is whole without them.

    The advice is the suite's first setting, or the best one if it is better than that by the differences from the best,
    adjusted for all settings of the task. How much better it is than ``against`` is said by Welch's test, adjusted for
    all rows. If it is worse, ``against`` is the advice.
    """
    rankings, defaults = rank_tasks(suites, runs), {suite.name: next(iter(suite.baselines)) for suite in suites}
    sizes = {f"{suite.name}/{task}": len(suite.baselines) for suite in suites for task in suite.tasks}
    names, asked, notes, lacking = dict[str, str](), [], [], defaultdict[str, list[str]](list)
    for entry in yaml.safe_load(problems.read_text(encoding="utf-8")):
        task, ranking = entry["task"], rankings.get(entry["task"])
        untrained = {name: why for name, why in entry.get("untrained", {}).items() if (task, name) not in runs}
        if ranking is None or len(ranking.rows) + len(untrained) < sizes[task]:
            continue
        for name, why in untrained.items():
            lacking[f"`{name}` was not trained: {why}."].append(f"`{task}`")
        taken = _take(ranking, defaults[task.split("/")[0]])
        if taken == entry["against"]:
            notes.append(f"In `{task}` `{taken}` itself cannot be told from the best: there is no advice.")
        else:
            names[task] = entry["problem"]
            asked.append(Planned(task, taken, entry["against"], BETTER, ""))
    for place, one in enumerate(compare(asked, runs)):
        if one.found == WORSE:
            asked[place] = Planned(one.planned.task, one.planned.second, one.planned.first, BETTER, "")
    overrides = {(suite.name, name): words for suite in suites for name, words in suite.baselines.items()}
    rows = []
    for one in compare(asked, runs):
        task, taken = one.planned.task, one.planned.first
        words = " ".join(f"`{shlex.quote(word)}`" for word in overrides.get((task.split("/")[0], taken), ()))
        named = f"`{taken}`{words and f': {words}'}"  # defaults and what needs no training have none
        rows.append(_advice_row(names[task], named, one, rankings[task], runs))
    return rows, [*notes, *(f"In {' and '.join(tasks)} {sentence}" for sentence, tasks in lacking.items())]


def common_tables(suites: Sequence[Suite], runs: Runs) -> list[str]:
    """What settings do on several tasks: the ratio of each one's error to that of the suite's first setting.

    Suites that begin with the same setting share a table. Bold is p < 0.05, adjusted for all ratios of all tables.
    """
    trained = [
        Planned(f"{suite.name}/{task}", name, first, EQUAL, "")
        for suite in suites
        for first, *others in [list(suite.baselines)]
        for task in suite.tasks
        for name in others
        if {(f"{suite.name}/{task}", first), (f"{suite.name}/{task}", name)} <= runs.keys()
    ]
    counts = Counter((one.first, one.second) for one in trained)
    shared = [one for one in trained if counts[one.first, one.second] > 1]
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for one in compare(shared, runs):
        planned, is_told = one.planned, one.p < SIGNIFICANCE_LEVEL
        text = f"**{_ratio(one)}**" if is_told else _ratio(one)
        cells.setdefault(planned.second, {})[planned.first, planned.task] = text
    tables = []
    for first, by_place in cells.items():
        names, columns = dict.fromkeys(name for name, _ in by_place), dict.fromkeys(task for _, task in by_place)
        rows = [[f"`{name}`", *(by_place.get((name, task), "") for task in columns)] for name in names]
        tables.append(markdown_table((f"error as a multiple of that of `{first}`", *columns), rows))
    return tables


def expectations_text(answers: Sequence[Compared]) -> str:
    """How many expectations of the screening and of publications hold; the table of the questions says which."""
    counts = []
    for who, is_ours in (("the screening", True), ("publications", False)):
        asked = [one for one in answers if ("screening" in one.planned.source) == is_ours]
        if asked:
            counts.append(f"{who} {sum(one.found == one.planned.expected for one in asked)} of {len(asked)}")
    return f"Of the expectations of {', of those of '.join(counts)} hold." if counts else ""


def _take(ranking: Ranking, default: str) -> str:
    row = row_of(ranking, default)
    is_worse = row is not None and row.difference is not None and row.difference.p < SIGNIFICANCE_LEVEL
    return ranking.rows[0].setting.name if is_worse or row is None else default


def _advice_row(problem: str, taken: str, compared: Compared, ranking: Ranking, runs: Runs) -> list[str]:
    planned, (reached, other) = compared.planned, compared.means
    row = row_of(ranking, planned.first)
    interval = f" ({ranking.metric.interval_cell(*row.interval)})" if row is not None and row.interval else ""
    against = f"{planned.second}: {ranking.metric.format(other)}"
    equals = 1 + len(ranking.undecided)
    among = "better than all others" if equals == 1 else f"one of {equals} that cannot be told from the best"
    if row is None:
        among = "better than the best of the settings"
    return [
        f"{problem}: `{planned.task}`",
        taken,
        f"{compared.metric} {ranking.metric.format(reached)}{interval}",
        f"{against}; {_ratio(compared, ' times the error')}",
        f"{p_text(compared.p)}; {among}",
        _cost(runs[planned.task, planned.first], runs[planned.task, planned.second]),
    ]


def _cost(own: Sequence[RunRecord], other: Sequence[RunRecord]) -> str:
    """Seconds of training, how many times those of the other, if it was trained, and parameters."""
    seconds, others = (
        [run.results[CPU_SECONDS] for run in group if CPU_SECONDS in run.results] for group in (own, other)
    )
    if not seconds:
        return "no training"
    times = f", {fmean(seconds) / fmean(others):.1f} times" if others else ""
    parameters = fmean(run.results[PARAMETERS] for run in own if PARAMETERS in run.results)
    return f"{fmean(seconds):.0f} s of a core{times}; {parameters:,.0f} parameters"


def _found_row(one: Compared) -> list[str]:
    planned = one.planned
    metric = f", {one.metric}" if planned.metric else ""
    question = f"`{planned.first}` against `{planned.second}`{metric}"
    found = one.found if one.found == planned.expected else f"**{one.found}**"
    return [planned.task, question, f"{planned.expected}: {planned.source}", found, _ratio(one), p_text(one.p)]


def _ratio(one: Compared, unit: str = "") -> str:
    """The ratio of errors and its interval, with the digits that the interval supports."""
    low, high = one.interval
    text = f"{{:.{digits_for(low, high)}f}}".format
    return f"{text(one.ratio)}{unit} ({text(low)} to {text(high)})"

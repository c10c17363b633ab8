"""What a suite writes: its page, its tables, and the runs that count, which others read beside theirs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from attnx.config.suite_file import Suite, merge_overrides
from attnx.errors import UserError, suggest
from attnx.files.parse_number import count_phrase
from attnx.files.printable import csv_text, titled_table
from attnx.reports.pages.html_template import fill_page, refuse_foreign, write_files
from attnx.reports.significant_digits import format_value
from attnx.reports.suite.standings import Entry, Standings, row_of
from attnx.reports.sweep.metrics import COSTS
from attnx.reports.sweep.ranking import RankedSetting, Ranking
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import SUITE, read_run_table, table_text
from attnx.reports.sweep.settings import ABSENT
from attnx.reports.sweep.texts import number_cells

PAGE: Final = Path(__file__).parents[1] / "pages" / "suite_page.html"
SUFFIXES: Final = (".html", ".md", ".csv", ".runs.csv")
FIGURES: Final = ("mean", "sd", "low", "high", "behind", "behind_low", "behind_high", "p")
NAMES: Final = ("name", "task", "mechanism", "overrides", "protocol")


class Table(NamedTuple):
    """A table of the page; a note stands below it."""

    title: str
    head: list[str]
    rows: list[list[str]]
    note: str = ""


def write_suite_report(standings: Standings, stem: Path) -> list[Path]:
    """Write the page, the text, the table and the table of runs, over older ones, and return their paths.

    Raises:
        UserError: a file cannot be written, or the page is another program's.
    """
    files = [stem.with_name(stem.name + suffix) for suffix in SUFFIXES]
    refuse_foreign(files[0])
    title = f"Suite {standings.suite.name}" + (f": {standings.challenger}" if standings.challenger else "")
    sentences, tables = [*standings.conclusions, *standings.notes, *standings.caveats], suite_tables(standings)
    made, fields = time.strftime("%Y-%m-%d %H:%M"), [table._asdict() for table in tables]
    page = fill_page(PAGE, title, {"sentences": sentences, "tables": fields, "made": made}, ["document", "paper"])
    blocks = [f"# {title}", *sentences]
    for table in tables:
        blocks += [titled_table(table.title, table.head, table.rows), table.note]
    texts = (page, "\n\n".join(filter(None, blocks)) + "\n", _csv(standings), _runs_csv(standings))
    return write_files(dict(zip(files, texts, strict=True)))


def suite_tables(standings: Standings) -> list[Table]:
    """The tables of the page; those without rows are left out."""
    tables: list[Table] = []
    overall = standings.overall
    label = overall.metric.label if overall else ""
    head = ["mechanism", "mean rank"]
    head += [f"mean {label}", "95 % interval", "behind", "95 % interval", "p"] if overall else []
    rows = []
    order = [*standings.mean_ranks, *(name for name in standings.mechanisms if name not in standings.mean_ranks)]
    for name in order:
        rank = standings.mean_ranks.get(name)
        cells = [_shown(standings, name), ABSENT if rank is None else f"{rank:.1f}"]
        if overall:
            row = row_of(overall, name)
            cells += _figures(overall, row) if row else [ABSENT, *[""] * 4]
        commits = {commit for entry in standings.entries if entry.mechanism == name for commit in entry.commits}
        rows.append([*cells, ", ".join(sorted(commits))])
    note = "A mechanism without a result on some task has no mean rank."
    tables.append(Table("All tasks", [*head, "commit"], rows, note))
    costs = {name: [entry.costs for entry in standings.entries if entry.mechanism == name] for name in order}
    rows = []
    for key in COSTS:
        cells = []
        for name in order:
            values = sorted(cost[key] for cost in costs[name] if key in cost)
            texts = [format_value(float(f"{value:.4g}")).removesuffix(".00") for value in values]
            cells.append(" to ".join(dict.fromkeys([*texts[:1], *texts[-1:]])))
        rows += [[COSTS[key], *cells]] if any(cells) else []
    note = "The mean over the runs that count; where tasks differ, the least and the most."
    tables.append(Table("Costs", ["", *(_shown(standings, name) for name in order)], rows, note))
    for task, ranking in standings.rankings.items():
        by_name = {entry.mechanism: entry for entry in standings.entries if entry.task == task}
        ranks, metric = standings.ranks[task], ranking.metric
        rows = []
        for row in ranking.rows:
            name, search = row.setting.name, standings.suite.search
            chosen = by_name[name].chosen([*search])
            cells = [f"{ranks[name]:g}", _shown(standings, name), *_figures(ranking, row), row.seed_count]
            rows.append([*cells, *(chosen.get(key, "") for key in search)])
        head = ["rank", "mechanism", f"{metric.label}{f', {metric.unit}' if metric.unit else ''}", "95 % interval"]
        tables.append(Table(task, [*head, "behind", "95 % interval", "p", "seeds", *standings.suite.search], rows))
    ends = [(entry, standings.keys_at_an_end(entry)) for entry in standings.entries]
    rows = [[entry.task, entry.mechanism, ", ".join(keys)] for entry, keys in ends if keys]
    note = "One beyond may be better: add it to the suite's search and run the same command."
    tables.append(Table("The lowest or the highest that was tried", ["task", "mechanism", "key"], rows, note))
    rows = [[entry.task, entry.mechanism, entry.status] for entry in standings.entries if entry.status]
    tables.append(Table("What did not work", ["task", "mechanism", "what happened"], rows))
    suite = standings.suite
    rows = [[task, " ".join(merge_overrides(suite.base, words))] for task, words in suite.tasks.items()]
    tables.append(Table("Tasks", ["task", "overrides"], rows))
    mechanisms = {entry.mechanism: entry.overrides for entry in standings.entries}
    rows = [[name, overrides] for name, overrides in mechanisms.items()]
    tables.append(Table("Mechanisms", ["mechanism", "overrides"], rows))
    rows = [[key, ", ".join(values)] for key, values in suite.search.items()]
    tables.append(Table("Search", ["key", "values"], rows, protocol_text(standings)))
    return [table for table in tables if table.rows]


def protocol_text(standings: Standings) -> str:
    """How the runs that count were chosen."""
    suite, counted = standings.suite, count_phrase(standings.suite.seeds, "new seed")
    if not suite.has_search:
        return f"{counted} of each mechanism on each task count, on the test."
    return (
        f"For each mechanism and task one run of each of the {len(suite.grid)} combinations was trained, all with one "
        f"seed. The best in validation was trained with {counted}, and these alone count, on the test: a combination "
        "that was chosen since its one seed was lucky gains nothing."
    )


def _shown(standings: Standings, name: str) -> str:
    return f"{name} (yours)" if name == standings.challenger else name


def _figures(ranking: Ranking, row: RankedSetting) -> list[str]:
    """The mean on the scale, its interval, and the difference from the best with interval and p."""
    metric = ranking.metric
    interval = metric.interval_cell(*row.interval) if row.interval else ""
    return [metric.format(ranking.scale_mean(row)), interval, *metric.difference_cells(row.difference)]


def _csv(standings: Standings) -> str:
    """A row for each mechanism on each task."""
    keys = [*standings.suite.search]
    columns = ["suite", "task", "mechanism", "overrides", "is_challenger", "rank", "metric", *FIGURES, "seeds"]
    rows = []
    for entry in standings.entries:
        cells = {"suite": standings.suite.name, "task": entry.task, "mechanism": entry.mechanism}
        cells |= {"overrides": entry.overrides, "commit": " ".join(entry.commits), "status": entry.status}
        cells |= {"is_challenger": str(entry.mechanism == standings.challenger).lower(), **entry.chosen(keys)}
        cells |= number_cells(entry.costs, [*entry.costs.values()])
        ranking = standings.rankings.get(entry.task)
        if ranking and (row := row_of(ranking, entry.mechanism)):
            _, sd, mean, *others = ranking.numbers(row)
            cells |= number_cells(FIGURES, [mean, sd, *others])
            cells |= {"rank": f"{standings.ranks[entry.task][entry.mechanism]:g}", "metric": ranking.metric.key}
            cells["seeds"] = " ".join(map(str, row.values))
        rows.append(cells)
    return csv_text([*columns, *keys, *COSTS, "commit", "status"], rows)


def _runs_csv(standings: Standings) -> str:
    """The runs that count, for others: like a report's table of runs, with the columns of the suite."""
    runs, suite = [], standings.suite
    for entry in standings.entries:
        facts = {
            f"{SUITE}.name": suite.name,
            f"{SUITE}.task": entry.task,
            f"{SUITE}.mechanism": entry.mechanism,
            f"{SUITE}.overrides": entry.overrides,
            f"{SUITE}.protocol": suite.protocol(entry.task),
        }
        runs += [replace(run, choices={**facts, **run.choices}) for run in entry.runs]
    return table_text(runs, list(dict.fromkeys(key for run in runs for key in run.choices)))


def read_entries(suite: Suite, table: Path) -> list[Entry]:
    """The mechanisms in a table of runs, by task.

    Raises:
        UserError: it is no table of a suite, or a row is of another suite, task or protocol; with the line.
    """
    groups: dict[tuple[str, str, str], list[RunRecord]] = {}
    for run in read_run_table(table):
        facts = {name: str(run.choices.pop(f"{SUITE}.{name}", "")) for name in NAMES}
        if not facts["mechanism"]:
            raise UserError(f"{run.path}: has no {SUITE}.mechanism; name a table that attnx suite has written")
        if facts["name"] != suite.name:
            raise UserError(f"{run.path}: is of the suite {facts['name']!r}, and this one is {suite.name!r}")
        if facts["task"] not in suite.tasks:
            raise UserError(
                f"{run.path}: {suite.file} has no task {facts['task']!r}{suggest(facts['task'], suite.tasks)}"
            )
        if facts["protocol"] != suite.protocol(facts["task"]):
            raise UserError(
                f"{run.path}: was trained by another protocol: base, search or the task {facts['task']!r} differ from "
                f"those in {suite.file}"
            )
        groups.setdefault((facts["task"], facts["mechanism"], facts["overrides"]), []).append(run)
    return [
        Entry(task, mechanism, overrides, runs, source=table.stem)
        for (task, mechanism, overrides), runs in groups.items()
    ]


def merge_entries(own: Sequence[Entry], others: Sequence[Entry]) -> list[Entry]:
    """All entries; of a mechanism that is in both the own runs count, and another one of the same name is renamed.

    Raises:
        UserError: a task was tested on other examples.
    """
    merged, known = list(own), {entry.mechanism: entry.overrides for entry in own}
    trained = {(entry.task, entry.mechanism) for entry in own if entry.finished}
    for entry in others:
        is_same = known.get(entry.mechanism, entry.overrides) == entry.overrides
        if is_same and (entry.task, entry.mechanism) in trained:
            continue
        name = entry.mechanism if is_same else f"{entry.mechanism} ({entry.source})"
        merged = [old for old in merged if (old.task, old.mechanism) != (entry.task, name)]
        merged.append(Entry(entry.task, name, entry.overrides, entry.runs, source=entry.source))
    tests: dict[str, RunRecord] = {}
    for entry in merged:
        for run in entry.finished:
            first = tests.setdefault(entry.task, run)
            if run.test != first.test:
                raise UserError(f"{run.path}: {entry.task} was tested on other examples than {first.path}")
    return merged


def counted_elsewhere(
    suite: Suite, others: Sequence[Entry], mechanisms: Mapping[str, Sequence[str]]
) -> set[tuple[str, str]]:
    """The tasks and mechanisms of which others have all runs that count, so that none is trained here."""
    known = {name: " ".join(words) for name, words in mechanisms.items()}
    return {
        (entry.task, entry.mechanism)
        for entry in others
        if known.get(entry.mechanism) == entry.overrides
        if {run.seed for run in entry.finished} >= {*suite.counted_seeds}
    }

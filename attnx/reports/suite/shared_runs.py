"""The runs of a suite in a table that another person has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnx.config.suite_file import Suite
from attnx.errors import UserError, suggest
from attnx.reports.suite.standings import Entry
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import SUITE, read_run_table

NAMES = ("name", "task", "mechanism", "overrides", "protocol")


def read_entries(suite: Suite, table: Path) -> list[Entry]:
    """The mechanisms in a table of runs, by task."""
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
        Entry(task, mechanism, overrides.split(), runs, source=table.stem)
        for (task, mechanism, overrides), runs in groups.items()
    ]


def merge_entries(own: Sequence[Entry], others: Sequence[Entry]) -> list[Entry]:
    """All entries; of a mechanism that is in both the own runs count, and another one of the same name is renamed."""
    merged, known = list(own), {entry.mechanism: list(entry.overrides) for entry in own}
    trained = {(entry.task, entry.mechanism) for entry in own if entry.finished}
    for entry in others:
        is_same = known.get(entry.mechanism, list(entry.overrides)) == list(entry.overrides)
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
    return {
        (entry.task, entry.mechanism)
        for entry in others
        if list(mechanisms.get(entry.mechanism, ())) == list(entry.overrides) and entry.mechanism in mechanisms
        if {run.seed for run in entry.finished} >= {*suite.counted_seeds}
    }

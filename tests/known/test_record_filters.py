"""Runs of a report that filters select, from folders and from tables, and what is said of filters that none passes."""

from pathlib import Path
from typing import Any

import pytest

from attnx.reports.sweep.report import filter_records
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from tests.refusal import refused


def record(name: str, error: float, **choices: Any) -> RunRecord:
    dotted = {key.replace("_", "."): value for key, value in choices.items()}
    results = {"test_per": error, **({"train_seconds": 150.0} if name == "c" else {})}
    created = f"2031-01-0{ord(name) - 96}T00:00:00+00:00"
    return RunRecord(Path(name), name, RunStatus.FINISHED, seed=1, choices=dotted, results=results, created=created)


RUNS = [
    record("a", 9.0, scorer="dot", optimizer_lr=0.001, query="token"),
    record("b", 8.0, scorer="additive", optimizer_lr=0.004, query="[token,last_context]"),
    record("c", 7.0, scorer="mlp", optimizer_lr="0.004", query="token"),  # as a table has it
    record("d", 30.0, attention="none", optimizer_lr=0.004),
    RunRecord(Path("e"), "e", RunStatus.UNREADABLE, error="e: cannot be read"),
]
UNDATED = RunRecord(Path("f"), "f", RunStatus.FINISHED, choices={"scorer": "dot"}, created="yesterday")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "abcde"),
        (["scorer=dot,additive"], "abe"),
        (["scorer!=dot"], "bcde"),
        (["optimizer.lr=4e-3", "test_per<10"], "bce"),
        (["optimizer.lr<0.002"], "ae"),
        (["query=token,[token,last_context]", "since=2031-01-02T00:00:00+00:00"], "bce"),
        (["seed=1", "status=finished"], "abcde"),
        (["name=a,b", "path=?"], "abe"),
        (["duration>2m"], "ce"),
    ],
)
def test_filters_select_the_runs_of_a_report(words, expected):
    """A run that cannot be read stays, since the report names it."""
    assert "".join(run.label for run in filter_records(RUNS, words)) == expected


def test_a_run_without_a_time_is_of_no_time():
    assert filter_records([*RUNS, UNDATED], ["scorer=dot"])[1] is UNDATED
    assert UNDATED not in filter_records([*RUNS, UNDATED], ["since=2031-01-01T00:00:00+00:00"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scorer"], "scorer: expected KEY=VALUE, as in scorer=additive"),
        (["scorr=dot"], "no run here has a key 'scorr'; did you mean scorer"),
        (["scorer=cosine"], "no run passes scorer=cosine of 4 run(s); scorer is additive, dot, mlp"),
        (["scorer=dot", "test_per<5"], "no run passes test_per<5 of 1 run(s); test_per is 9.0"),
    ],
)
def test_filters_that_no_run_passes_are_refused(words, message):
    with refused(f"{message}..."):
        filter_records(RUNS, words)

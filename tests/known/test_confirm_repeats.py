"""Seeds of studies/confirm that are trained again on another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from attnx.config.suite_file import Suite, read_suite
from attnx.reports.sweep.run_record import RunRecord
from studies.confirm.comparisons import read_runs
from studies.confirm.repeats import HERE, read_repeated, repeat_rows, write_repeat
from tests.known.confirm_runs import runs


def seed_runs(*rates: float | None) -> list[RunRecord]:
    """Runs of seeds 2, 3 ... with these error rates, and the rate that was chosen for them."""
    return [
        replace(run, seed=seed, choices={"optimizer.lr": "0.012"}) for seed, run in enumerate(runs(*rates), start=2)
    ]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    file = tmp_path / "words.yaml"
    fields = {
        "base": ["model.dropout=0.2"],
        "tasks": {"english": ["task=g2p"], "french": ["task=g2p"]},
        "baselines": {"dot": ["scorer=dot"], "none": ["attention=none"]},
        "search": {"optimizer.lr": [0.004, 0.012]},
        "seeds": 4,
    }
    file.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return read_suite(str(file))


def test_the_results_of_equal_seeds_are_compared(suite: Suite) -> None:
    """Of seeds 2 to 4: the fifth was trained once, the sixth failed on the other machine."""
    counted = {
        ("words/english", "dot"): seed_runs(5.0, 5.1, 5.2, 9.0, 5.0),
        ("words/french", "dot"): seed_runs(7.0, 7.1),
    }
    repeated = {("words/english", "dot"): [*seed_runs(5.1, 5.1, 5.4), *seed_runs(*[None] * 5)[4:]]}
    assert repeat_rows([suite], counted, repeated) == [
        ["words/english", "`dot`", "3", "PER 5.10", "5.20", "0.10", "0.10, at most 0.20"]
    ]


def test_the_first_setting_is_trained_again_with_what_was_chosen(suite: Suite, tmp_path: Path) -> None:
    counted = {("words/english", "dot"): seed_runs(5.0, 5.1), ("words/english", "none"): seed_runs(9.0, 9.1)}
    again = read_suite(str(write_repeat(suite, counted, 3, tmp_path / "repeats")))
    assert again.baselines == {"dot": ["scorer=dot"]}
    assert again.tasks == {"english": ["task=g2p", "optimizer.lr=0.012"]}
    assert (again.base, again.grid, [*again.counted_seeds]) == (suite.base, [[]], [2, 3, 4])


def test_what_the_page_says_of_two_machines() -> None:
    suites = [read_suite(str(file)) for file in sorted((HERE / "suites").glob("*.yaml"))]
    counted, repeated = read_runs(sorted((HERE / "results").glob("*.csv")), suites), read_repeated(suites)
    rows = {row[0]: row for row in repeat_rows(suites, counted, repeated)}
    for task in ("forecasting/etth1", "tracking/parity"):
        assert float(rows[task][-1].rpartition(" ")[2]) == 0.0
    *_, deviation, moved = rows["tracking/permutations"]
    assert float(moved.partition(",")[0]) == pytest.approx(float(deviation), abs=0.05)
    recalled = [
        {run.seed for run in group["recall/mixed", "attention"] if run.results["test_accuracy_128x32"] == 100.0}
        for group in (counted, repeated)
    ]
    assert len(repeated["recall/mixed", "attention"]) == 3
    assert len(recalled[1]) == 1
    assert recalled[0].isdisjoint(recalled[1])

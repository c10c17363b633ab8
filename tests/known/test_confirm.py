"""The planned comparisons of studies/confirm, and its suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnx.config.compose import compose
from attnx.config.suite_file import read_suite
from attnx.errors import UserError
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from studies.confirm.__main__ import HERE, SUITES
from studies.confirm.comparisons import BETTER, EQUAL, OPEN, WORSE, Planned, check_names, compare, read_planned

FILES = sorted(SUITES.glob("*.yaml"))


def runs(*rates: float | None) -> list[RunRecord]:
    """Runs with these error rates; None for one that failed."""
    return [
        RunRecord(
            path=Path(str(seed)),
            label="run",
            status=RunStatus.FAILED if rate is None else RunStatus.FINISHED,
            seed=seed,
            results={} if rate is None else {"test_per": rate, "test_examples": 1000.0},
            monitor="valid_per",
            maximize=False,
        )
        for seed, rate in enumerate(rates)
    ]


def planned(first: str, second: str) -> Planned:
    return Planned("g2p/english", first, second, EQUAL, "nobody")


def test_settings_are_better_worse_equal_or_open() -> None:
    table = {
        ("g2p/english", "good"): runs(5.0, 5.1, 5.2, 5.1),
        ("g2p/english", "like it"): runs(5.1, 5.0, 5.2, 5.1),
        ("g2p/english", "bad"): runs(10.0, 10.2, 10.1, 10.3),
        ("g2p/english", "wild"): runs(4.0, 8.0, 5.0, 9.0),
    }
    pairs = [("good", "bad"), ("bad", "good"), ("good", "like it"), ("good", "wild"), ("good", "absent")]
    answers = compare([planned(*pair) for pair in pairs], table)
    assert [one.found for one in answers] == [BETTER, WORSE, EQUAL, OPEN]
    assert answers[0].ratio == pytest.approx(1 / answers[1].ratio)
    assert answers[0].ratio == pytest.approx(5.1 / 10.15, rel=0.01)
    assert answers[0].interval[0] < answers[0].ratio < answers[0].interval[1] < 1
    assert answers[2].interval[0] < 1 < answers[2].interval[1]
    assert "good against bad: better, expected equal (PER 5.1 and 10.15, ratio 0.50" in answers[0].sentence


def test_p_allows_for_all_comparisons() -> None:
    table = {("g2p/english", "a"): runs(5.0, 5.2, 5.3), ("g2p/english", "b"): runs(5.3, 5.5, 5.6)}
    (alone,) = compare([planned("a", "b")], table)
    first, second = compare([planned("a", "b"), planned("b", "a")], table)
    assert first.p == second.p == pytest.approx(2 * alone.p)


def test_a_failed_run_counts_as_the_worst_of_its_task() -> None:
    table = {
        ("g2p/english", "whole"): runs(5.0, 5.1, 5.2),
        ("g2p/english", "failed"): runs(5.0, 5.1, None),
        ("g2p/english", "worst"): runs(50.0, 5.0, 5.0),
    }
    (one,) = compare([planned("failed", "whole")], table)
    assert one.means[0] == pytest.approx((5.0 * 5.1 * 50.0) ** (1 / 3))


def test_comparisons_name_settings_of_the_suites() -> None:
    suites = [read_suite(str(file)) for file in FILES]
    check_names(read_planned(HERE / "comparisons.yaml"), suites)
    with pytest.raises(UserError, match=r"no suite has pronunciation/english lokation; did you mean .* location or"):
        check_names([Planned("pronunciation/english", "lokation", "none", EQUAL, "nobody")], suites)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_setting_can_be_composed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNX_DATA", "data")
    suite = read_suite(str(file))
    first_task, first_baseline = next(iter(suite.tasks)), next(iter(suite.baselines))
    cells = {(first_task, name) for name in suite.baselines} | {(task, first_baseline) for task in suite.tasks}
    for task, name in sorted(cells):
        compose(suite.job(task, suite.baselines[name], suite.grid[0]))

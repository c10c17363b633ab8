"""The ratios of speeds that benchmarks print: within a round, and of rows that both were measured."""

import importlib
from pathlib import Path

import pytest
from rich.console import Console

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """Import a module of the folder of benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_attnx_is_compared_with_the_same_schedule_by_hand(benchmark):
    speeds = [
        {"attnx, step by step": 6.0, "by hand, step by step": 4.0, "by hand, run then attend": 1.0},
        {"attnx, step by step": 6.0},
    ]
    expected = [{"attnx, step by step / by hand, step by step": 1.5}, {}]
    assert benchmark("training_speed").ratios(speeds) == expected


def test_rows_by_hand_are_those_of_the_rows_of_attnx(benchmark, tmp_path):
    contenders = benchmark("training_speed").contenders
    rows = "attend then run"
    ready, problems = contenders(tmp_path, ["attnx", "by_hand"], rows, Console())
    assert list(ready) == [f"attnx, {rows}", f"attnx, {rows}, unsorted", f"by hand, {rows}"]
    assert not problems


def test_two_processes_and_two_jobs_are_compared_with_one_process(benchmark):
    scaling = benchmark("scaling_ddp")
    alone, ddp, jobs = scaling.WAYS
    speeds = [{f"run then attend: {way}": speed for way, speed in ((alone, 10.0), (ddp, 9.0), (jobs, 15.0))}]
    compared = scaling.ratios([*speeds, {}], ["run then attend", "step by step"])
    expected = {f"run then attend: {way} / {alone}": ratio for way, ratio in ((ddp, 0.9), (jobs, 1.5))}
    assert compared == [expected, {}]


def test_a_step_learns_from_as_many_words_in_one_process_as_in_two(benchmark):
    scaling = benchmark("scaling_ddp")
    alone, ddp, _ = scaling.WAYS.values()
    assert "trainer.devices=2" in ddp.words
    assert alone.rows == 2 * ddp.rows
    assert alone.threads == 2 * ddp.threads

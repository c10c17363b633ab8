"""What a run costs, in its files; counting changes nothing of the training."""

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import attnx
from attnx.inference.decode_latency import REPEATS, WARM_UP_STEPS, measure_latency
from attnx.inference.load import open_run
from attnx.inference.model_cost import ModelCost, count_cost
from attnx.reports.run.tables import start_table
from attnx.runs.results import CONTEXTS
from attnx.runs.run import read_run
from tests.runs.conftest import change_info, fit_run, results, run_info
from tests.runs.test_forecasting import HISTORY, HORIZON, write
from tests.terminal_text import terminal_text

MISTAKES = {
    "one --contexts 100": "--contexts 100: choose from 128, 512, 2048, 8192",
    "one --contexts many": "--contexts many: expected a whole number",
    "missing": "missing: not a folder",
    "two": "two: holds no finished run to measure",
}


@pytest.fixture(autouse=True)
def _counted_operations(monkeypatch):
    monkeypatch.setattr("attnx.training.train.count_cost", count_cost)


def start_text(folder: str) -> str:
    return terminal_text(start_table(read_run(Path(folder))))


def test_operations_are_in_results_and_in_the_start_table_and_training_is_unchanged(run, monkeypatch, same_weights):
    run("model.dropout=0.2", folder="counted")
    scores, flops = results("counted"), run_info("counted")["flops"]
    assert scores["train_flops"] == pytest.approx(sum(flops["train"].values()), abs=len(flops["train"]))
    assert [scores[f"decode_flops_{context}"] for context in CONTEXTS] == [*flops["decode"].values()]
    assert "FLOPs" in start_text("counted")
    monkeypatch.setattr("attnx.training.train.count_cost", lambda *_: ModelCost(note="operations could not be counted"))
    run("model.dropout=0.2", folder="uncounted")
    assert "operations could not be counted" in start_text("uncounted")
    assert not any("flops" in name for name in results("uncounted"))
    assert same_weights(["counted", "uncounted"])


@pytest.mark.parametrize(
    ("choice", "decoded"), [("attention=none", 0), ("scope=history", 512 - REPEATS - WARM_UP_STEPS)]
)
def test_the_time_of_a_model_that_does_not_attend_to_its_source_is_measured(choice, decoded, run, succeed):
    """Nothing is decoded twice; without attention the context is a source's length."""
    run(choice, folder="one")
    succeed("cost", "one", "--contexts", "128", "512")
    costs = json.loads(Path("one/cost.json").read_text())
    assert all(costs[f"decode_ms_{context}"] > 0 for context in (128, 512))
    opened = open_run("one")
    opened.model.decode_step = Mock(wraps=opened.model.decode_step)  # type: ignore[method-assign]
    assert len(list(measure_latency(opened, (512, 128), torch.device("cpu")))) == 2
    assert opened.model.decode_step.call_count == decoded + 2 * (WARM_UP_STEPS + REPEATS)


@pytest.mark.parametrize("known", [[], ["task.known_columns=[hour]"]], ids=["unknown", "known"])
def test_the_time_of_a_forecast_of_few_steps_is_measured_after_whole_contexts(known, no_pictures, succeed):
    """When the three steps of the horizon are used up, they are decoded again."""
    write()
    opened = fit_run([*HISTORY, *known], "one")
    succeed("cost", "one", "--contexts", "128", "512")
    assert json.loads(Path("one/cost.json").read_text())["decode_ms_512"] > 0
    opened.model.decode_step = Mock(wraps=opened.model.decode_step)  # type: ignore[method-assign]
    assert len(list(measure_latency(opened, (128, 512), torch.device("cpu")))) == 2
    states = [call.args[1].decoder for call in opened.model.decode_step.call_args_list]
    positions = [state.memory.keys.shape[-2] for state in states]
    steps = [number % HORIZON for number in range(WARM_UP_STEPS + REPEATS)]
    assert positions == [context + step for context in (128, 512) for step in steps]


def test_the_time_of_a_decoded_token_is_measured_and_kept(run, succeed, refuse):
    run(folder="one")
    output = succeed("cost", "one", "--no-latency")
    assert "8,192" in output
    assert not Path("one/cost.json").exists()
    output = succeed("cost", "one", "--contexts", "512", "128")
    assert "one: measured on cpu, " in output
    costs = json.loads(Path("one/cost.json").read_text())
    assert costs["accel"] == read_run(Path("one")).config["accel"]
    assert all(costs[f"decode_ms_{context}"] > 0 for context in (128, 512))
    assert "decode_ms_2048" not in costs
    assert attnx.report("one").runs[0].results["decode_ms_512"] == costs["decode_ms_512"]
    for threads, is_kept in ((costs["threads"], True), (costs["threads"] + 1, False)):
        Path("one/cost.json").write_text(json.dumps(costs | {"threads": threads}))
        row = next(line for line in succeed("cost", "one", "--contexts", "128").splitlines() if " 512 " in line)
        assert (f"{costs['decode_ms_512']:,.3f}" in row) == is_kept
        assert ("decode_ms_512" in json.loads(Path("one/cost.json").read_text())) == is_kept
    Path("two").mkdir()
    shutil.copy("one/run.json", "two")
    change_info("two", status="interrupted")
    for line, phrase in MISTAKES.items():
        assert phrase in refuse("cost", *line.split())

"""``match=`` and ``budget=flops``: the jobs of a sweep cost what the first one does."""

from pathlib import Path

import pytest
import yaml

import attnx
from attnx.runs.sweep import read_sweep
from attnx.sweeps.equal_budgets import CostMeter
from attnx.sweeps.match_widths import TOLERANCE
from tests.runs.conftest import results

WIDE = ["encoder.hidden_size=40", "decoder.hidden_size=40"]


@pytest.fixture(autouse=True)
def _counted(work_folder):
    """Jobs count what they cost."""
    (work_folder / "counted").touch()


def test_jobs_have_the_parameters_of_the_first_one(sweep):
    """Widths are overrides of the job; the same command again finds it done."""
    words = ["scorer=additive,dot", "match=parameters", *WIDE, "name=equal"]
    answer = sweep(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("each job has the parameters of the first one, by its width (match=parameters)\n")
    first, second = read_sweep("multirun/equal").jobs
    assert first.match == "parameters +0.0 %"
    residual = results("multirun/equal/1")["parameters"] / results("multirun/equal/0")["parameters"] - 1
    assert abs(residual) < TOLERANCE
    assert second.match == f"parameters {residual * 100:+.1f} %"
    width = yaml.safe_load(Path("multirun/equal/1/config.yaml").read_text(encoding="utf-8"))["decoder"]["hidden_size"]
    assert width > 40
    assert second.values["decoder.hidden_size"] == second.values["encoder.hidden_size"] == str(width)
    assert f"| {width} | {width} | {second.match} |" in Path("multirun/equal/README.md").read_text(encoding="utf-8")
    again = sweep(*words)
    assert (again.code, [job.attempts for job in read_sweep("multirun/equal").jobs]) == (0, [1, 1])


def test_jobs_keep_as_many_bytes_as_the_first_one(sweep):
    """The states of the encoder are kept, so one of a single direction is wider."""
    answer = sweep("encoder.bidirectional=true,false", "match=state", *WIDE, "name=state")
    assert (answer.code, answer.err) == (0, "")
    first, second = (results(f"multirun/state/{index}")["state_bytes_2048"] for index in range(2))
    job = read_sweep("multirun/state").jobs[1]
    assert job.match == f"state {(second / first - 1) * 100:+.1f} %"
    assert second == pytest.approx(first, rel=TOLERANCE)
    assert int(job.values["encoder.hidden_size"]) > 40


@pytest.mark.usefixtures("pruned_jobs")
def test_a_job_that_cannot_be_close_is_named_before_it_trains(sweep):
    sizes = ["encoder.hidden_size=2", "decoder.hidden_size=2", "model.embedding_dim=2"]
    answer = sweep("encoder.layers=1,2", "match=flops", *sizes, "scorer=dot", "name=far")
    assert answer.code == 0
    line = next(line for line in answer.out.splitlines() if "the nearest that its widths allow" in line)
    assert "encoder.layers=2" in line
    assert "flops" in line


def test_jobs_have_the_operations_of_the_first_ones_steps(sweep):
    answer = sweep("encoder.hidden_size=7,23", "budget=flops", "trainer.max_steps=12", "name=steps")
    assert (answer.code, answer.err) == (0, "")
    first, second = (results(f"multirun/steps/{index}") for index in range(2))
    assert first["steps"] == 12
    assert second["steps"] == round(12 * first["train_flops"] / second["train_flops"])
    assert second["steps"] * second["train_flops"] == pytest.approx(12 * first["train_flops"], rel=0.1)


@pytest.fixture
def equal_steps(work_folder):
    """The steps of jobs, the first of which has 60, and their meter; a row has 3 source and 4 target words."""
    lines = [f"ab cd ef{number:02}\tABC DEF GHI JK{number:02}\n" for number in range(40)]
    Path("rows.tsv").write_text("".join(lines), encoding="utf-8")
    Path("held_out.tsv").write_text("ab\tABC\n", encoding="utf-8")
    files = ["task.train=rows.tsv", "task.valid=held_out.tsv", "task.test=held_out.tsv", "trainer.accelerator=cpu"]

    def count(*jobs: str) -> tuple[list[int], list[float]]:
        words = ["task=translation", *files, "trainer.max_steps=60", *WIDE]
        configs = [attnx.compose([*words, *job.split()]) for job in jobs]
        meter = CostMeter()
        return meter.equal_steps(configs), [meter.measure(config, "flops") for config in configs]

    return count


def test_a_step_costs_what_all_its_rows_cost(equal_steps):
    """A target has 5 words or 17 characters, its end counted."""
    (_, steps), (by_word, by_character) = equal_steps("task.tokenizer=word", "task.tokenizer=character")
    assert steps == round(60 * 5 * by_word / (17 * by_character))
    processes = "trainer=ddp trainer.devices=2"
    accumulated = [f"trainer.accumulate_grad_batches=3 trainer.batch_size={size}" for size in (10, 64)]  # 30 rows, 40
    jobs = [f"trainer.batch_size=10 {processes}", "trainer.batch_tokens=50", f"trainer.batch_tokens=50 {processes}"]
    jobs = ["trainer.batch_size=10", *jobs, *accumulated]
    steps, _ = equal_steps(*(f"task.tokenizer=word {job}" for job in jobs))
    assert steps == [60, 30, 60, 30, 60 * 10 / (40 / 2), 60 * 10 / 40]

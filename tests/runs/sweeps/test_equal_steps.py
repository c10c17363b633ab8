"""A time limit becomes one number of steps for all jobs of a sweep, or each job has its own time."""

import fcntl
import json
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.runs.layout import STEP_TIME, STEP_TIME_LOCK
from attnx.runs.sweep import read_step_time
from attnx.sweeps import equal_budgets
from attnx.training import plan_steps
from attnx.training.train import prepare
from tests.runs.conftest import results, run_info

SECOND = ["trainer.max_steps=null", "trainer.max_time=00:00:01"]
# Of a step of half a second 112 fit into a minute, of which 6 % are left for validations: 56.4 / 0.5.
MEASURED = {"seconds_per_step": 0.5, "job": 0, "max_time": "00:01:00", "steps": 112}


def steps(folder: str) -> set[int]:
    """The steps that were planned, and those that were taken."""
    info, taken = run_info(folder), results(folder)["steps"]
    assert info["step_plan"] == [{"step": 0, "steps": taken, "validations": 2}]
    assert info["budget"] == "steps"
    return {info["steps"], taken}


def test_jobs_limited_by_time_have_equal_steps(sweep, command):
    """Two in parallel, one of them wider; then an added one, and one that starts anew."""
    overrides = [*SECOND, "name=timed", "-j", "2"]
    answer = sweep("encoder.hidden_size=7,101", *overrides)
    assert (answer.code, answer.err) == (0, "")
    result = read_step_time(Path("multirun/timed"))
    assert result is not None
    line = f"{result.steps:,} steps a job: as many as fit into 00:00:01, as job {result.job} measured"
    first, *_, last, _, _ = answer.out.splitlines()
    assert first == "the first job measures how many steps fit into 00:00:01; equal times are equal steps"
    assert last == line
    assert f"\n{line}.\n" in Path("multirun/timed/README.md").read_text(encoding="utf-8")
    assert steps("multirun/timed/0") == steps("multirun/timed/1") == {result.steps}
    # What is done later has the steps that were measured then: here, to be quick, as if they were four.
    measured = {**result._asdict(), "seconds_per_step": 0.94 / 4, "steps": 4}
    Path("multirun/timed", STEP_TIME).write_text(json.dumps(measured), encoding="utf-8")
    second_answer = sweep("encoder.hidden_size=7,101,11", *overrides)
    assert (second_answer.code, second_answer.out.split(":")[0]) == (0, "4 steps a job")
    shutil.rmtree("multirun/timed/0")
    assert command("resume", "multirun/timed").code == 0
    assert steps("multirun/timed/0") == steps("multirun/timed/2") == {4}


def test_each_job_follows_its_own_clock_if_time_is_the_budget(sweep):
    answer = sweep("scorer=dot", *SECOND, "budget=time", "name=timed")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("each job trains for 00:00:01 by its own clock (budget=time), so numbers of steps")
    assert run_info("multirun/timed/0")["budget"] == "time"
    assert not Path("multirun/timed", STEP_TIME).exists()


@pytest.fixture
def job(words, small, monkeypatch):
    """One that is to train for a minute, and whose steps take a quarter of a second."""
    monkeypatch.setattr(plan_steps, "measure_step", lambda job: 0.25)
    time = ["trainer.max_steps=null", "trainer.max_time=00:01:00"]
    return prepare(compose([*(size for size in small if "max_steps" not in size), *time]))


@pytest.fixture
def folder(work_folder):
    """The folder of job 3 of a sweep."""
    (work_folder / "multirun/many").mkdir(parents=True)
    (work_folder / "multirun/many/sweep.json").write_text("{}", encoding="utf-8")
    return work_folder / "multirun/many/3"


@pytest.mark.parametrize("measures", [True, False], ids=["until the other has measured", "or has died"])
def test_a_job_waits_for_the_measuring_job(measures, job, folder):
    waits, planned = threading.Event(), []
    console: Any = SimpleNamespace(print=lambda line: waits.set() if "waiting" in line else None)
    with (folder.parent / STEP_TIME_LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: planned.append(plan_steps.plan_steps(job, folder, console)))
        waiting.start()
        waits.wait()
        if measures:
            (folder.parent / STEP_TIME).write_text(json.dumps(MEASURED), encoding="utf-8")
    waiting.join()
    # A step of a quarter of a second is its own measurement: 56.4 / 0.25.
    result = read_step_time(folder.parent)
    assert (planned[0].end, planned[0].seconds) == (112 if measures else 225, None)
    assert result == (0.5, 0, "00:01:00", 112) if measures else (0.25, 3, "00:01:00", 225)


def test_another_time_limit_scales_the_steps(job, folder):
    (folder.parent / STEP_TIME).write_text(json.dumps({**MEASURED, "max_time": "00:00:30", "steps": 56}), "utf-8")
    console: Any = SimpleNamespace(print=pytest.fail)
    assert plan_steps.plan_steps(job, folder, console).end == 112


def test_a_single_run_follows_its_clock(job, work_folder):
    console: Any = SimpleNamespace(print=pytest.fail)
    plan = plan_steps.plan_steps(job, work_folder / "multirun/runs/1", console)
    assert (plan.end, plan.seconds) == (225, 60)


@pytest.mark.parametrize(("steps", "epochs"), [(1, 3), (3, 1)])
def test_the_first_end_is_the_end(steps, epochs, job, work_folder):
    job.config["trainer"].update(max_steps=steps * len(job.loaders.batches), max_epochs=epochs)
    console: Any = SimpleNamespace(print=pytest.fail)
    assert plan_steps.plan_steps(job, work_folder, console).end == len(job.loaders.batches)


@pytest.mark.parametrize("content", [[], {"steps": 5}, {**MEASURED, "seconds_per_step": 0}, {**MEASURED, "steps": "5"}])
def test_an_invalid_step_time_file_is_reported(content, work_folder):
    (work_folder / STEP_TIME).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=STEP_TIME):
        read_step_time(work_folder)


def test_jobs_of_equal_time_have_their_own_cores(refuse, small, words, monkeypatch):
    monkeypatch.setattr(equal_budgets, "available_cores", lambda: 2)
    timed = ["scorer=dot,additive", "budget=time", "trainer.max_time=00:00:01"]
    line = refuse("-m", *timed, *(size for size in small if "max_steps" not in size), "-j", "3")
    assert "this machine has 2 for -j 3; use -j 2 or fewer" in line

"""A run with a time limit follows its clock at any speed; here the losses move the clock."""

import itertools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnx.errors import UserError
from attnx.tasks.loss import token_loss
from attnx.training import fit, lightning_module, plan_steps
from attnx.training.callbacks.step_plan import Revision, StepPlan, TimeBudget, read_plan
from attnx.training.distributed import process_group
from attnx.training.lightning_module import TrainingModule
from tests.run_folder import write_run_folder
from tests.runs.conftest import results, run_info, table

MINUTE = ["trainer.max_steps=null", "trainer.max_time=00:01:00"]
Rate = Callable[[float], float]


class Clock:
    """Tells seconds, which pass as losses are computed and as validations begin, and not otherwise."""

    def __init__(self) -> None:
        self.now, self.zero = 0.0, 0.0
        self.loss: Rate = lambda seconds: 0.4
        self.validation = 0.0

    def __call__(self) -> float:
        return self.now

    def compute(self, *args: Any) -> Any:
        self.now += self.loss(self.now - self.zero)
        return token_loss(*args)


@pytest.fixture
def clock(monkeypatch):
    """The clock of all runs."""
    clock, prepare, begin = Clock(), fit.prepare, TrainingModule.on_validation_epoch_start

    def prepare_job(config: Any) -> Any:
        job = prepare(config)
        job.clock = clock
        return job

    def validate(self: TrainingModule) -> None:
        clock.now += clock.validation
        begin(self)

    def start(self: TrainingModule) -> None:
        clock.zero = clock.now  # rates change so long after training began

    monkeypatch.setattr(fit, "prepare", prepare_job)
    monkeypatch.setattr(lightning_module, "token_loss", clock.compute)
    monkeypatch.setattr(TrainingModule, "on_validation_epoch_start", validate)
    monkeypatch.setattr(TrainingModule, "on_train_start", start)
    return clock


@pytest.fixture
def rates(monkeypatch):
    """The learning rate of each step that was taken, and whatever was taken again has the last one."""
    step, result = TrainingModule.training_step, dict[int, float]()

    def note_rate(self: TrainingModule, *args: Any) -> Any:
        result[self.global_step] = self.trainer.optimizers[0].param_groups[0]["lr"]
        return step(self, *args)

    monkeypatch.setattr(TrainingModule, "training_step", note_rate)
    return result


def final_rate(folder: str) -> float:
    """The learning rate after the last step."""
    checkpoint = torch.load(Path(folder, "checkpoints/last.ckpt"), weights_only=True)
    return float(checkpoint["optimizer_states"][0]["param_groups"][0]["lr"])


CHANGES: dict[str, tuple[float, Rate, float, str]] = {
    "half as fast": (2.0, lambda seconds: 2.0 if seconds < 30 else 4.0, 0.5, "linear"),
    "twice as fast": (2.0, lambda seconds: 2.0 if seconds < 30 else 1.0, 0.5, "cosine"),
    "half as fast near the end": (2.0, lambda seconds: 2.0 if seconds < 55 else 4.0, 0.5, "linear"),
    "measured as the machine was busy": (8.0, lambda seconds: 2.0, 0.5, "linear"),
    "measured too fast": (0.5, lambda seconds: 2.0, 0.5, "cosine"),
    "validations take most of it": (2.0, lambda seconds: 2.0, 15.0, "linear"),
}


@pytest.mark.parametrize(("measured", "rate", "validation", "schedule"), CHANGES.values(), ids=CHANGES)
def test_a_run_uses_its_time_and_completes_its_schedule(measured, rate, validation, schedule, run, clock, rates):
    clock.loss, clock.validation = lambda seconds: rate(seconds) if clock.zero else measured, validation
    run(*MINUTE, f"lr_schedule={schedule}", "lr_schedule.warmup_steps=3", "trainer.num_validations=3", folder="one")
    scores, message, trained = results("one"), run_info("one"), table("one/metrics.csv")
    assert 54 <= scores["train_seconds"] <= 66
    assert (message["budget"], message["steps"]) == ("time", scores["steps"])
    # After the last step the rate is that of the end; before, it falls without a jump.
    assert int(trained[-1]["step"]) == scores["steps"] == len(rates)
    assert final_rate("one") == 0
    shown = [float(row["learning_rate"]) for row in trained]
    assert shown == pytest.approx([rates[int(row["step"]) - 1] for row in trained], rel=1e-5)
    falling = [rates[step] for step in range(3, len(rates))]
    assert all(later <= earlier for earlier, later in itertools.pairwise(falling))
    assert all(rate > 0 for rate in rates.values())
    validations = sum(bool(row["valid_loss"]) for row in trained)
    assert validations == 3 if validation < 1 else 1 <= validations < 3


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.usefixtures("forked_ranks")
def test_the_clock_of_the_first_process_decides(run, clock):
    """The other one's says that a step takes ten times as long; both must revise the same plan, or none would end."""

    def rate(seconds: float) -> float:
        return (1.2 if seconds < 30 else 2.4) * (1 if process_group.is_main_process() else 10)

    clock.loss = rate
    run(*MINUTE, "trainer=ddp", "trainer.devices=2", folder="one")
    assert 54 <= results("one")["train_seconds"] <= 66
    assert len(run_info("one")["step_plan"]) > 1
    assert results("one")["steps"] == run_info("one")["steps"]
    assert final_rate("one") == 0


def test_the_same_clock_gives_the_same_run(run, clock, same_weights):
    clock.loss = lambda seconds: 1.6 if seconds < 20 else 3.6
    for folder in ("one", "two"):
        clock.now = clock.zero = 0.0
        run(*MINUTE, folder=folder)
    assert len(run_info("one")["step_plan"]) > 1
    assert run_info("one")["step_plan"] == run_info("two")["step_plan"]
    assert same_weights(["one", "two"])


def test_a_run_is_reproduced_by_its_number_of_steps(run, clock, same_weights, monkeypatch):
    monkeypatch.setattr(plan_steps, "VALIDATION_SHARE", 0.0)
    monkeypatch.setattr("attnx.training.callbacks.step_plan.VALIDATION_SHARE", 0.0)
    monkeypatch.setattr(TrainingModule, "_add_loss", lambda self, batch: self._sums.add_(1))  # takes no time
    clock.loss = lambda seconds: 2.5
    run(*MINUTE, "model.dropout=0.2", folder="timed")
    steps = 60 / 2.5
    assert run_info("timed")["step_plan"] == [{"step": 0, "steps": steps, "validations": 2}]
    run(f"trainer.max_steps={steps:.0f}", "model.dropout=0.2", folder="counted")
    assert (run_info("counted")["budget"], run_info("counted")["step_plan"]) == (
        "steps",
        run_info("timed")["step_plan"],
    )
    assert same_weights(["timed", "counted"])


def test_a_killed_run_resumes_and_keeps_its_time(run, clock, rates, succeed, monkeypatch):
    """A folder is copied as a killed run leaves it: after a revision that came after the last checkpoint."""
    step = TrainingModule.training_step

    def copy_run(self: TrainingModule, *args: Any) -> Any:
        if self.global_step == 75 and not Path("cut").exists():
            shutil.copytree("whole", "cut")
        return step(self, *args)

    monkeypatch.setattr(TrainingModule, "training_step", copy_run)
    clock.loss = lambda seconds: 0.4 if seconds < 20 else 0.6
    run(*MINUTE, "trainer.checkpoint_every=60", "trainer.num_validations=1", folder="whole")
    plan, complete = run_info("cut")["step_plan"], dict(rates)
    revised = plan[-1]["step"]
    assert 60 < revised < 75
    rates.clear()
    clock.now, clock.loss = 1e6, lambda seconds: 0.3
    succeed("resume", "cut")
    assert min(rates) == 60
    assert all(rates[step] == complete[step] for step in range(60, revised + 1))
    assert run_info("cut")["step_plan"][: len(plan)] == plan
    # The sixty steps before count: 20 s, and ten of 0.6 s. The rest of the minute passes twice as fast as before.
    assert 54 <= results("cut")["train_seconds"] <= 66
    assert results("cut")["steps"] > results("whole")["steps"]
    assert final_rate("cut") == 0


FOUR, TWO = Revision(0, 100, 4), Revision(30, 80, 2)  # of them the second after the first


@pytest.mark.parametrize(
    ("plan", "validation", "step", "elapsed", "expected"),
    [
        # One step a second. The validation that follows counts with the other three: 75 s without four of 1.5 s.
        ([FOUR], None, 25, 25.0, Revision(25, 94, 4)),
        # One of 20 s is no time of steps: two a second. Half of 65 s for 70 % of the run is too little for three.
        ([FOUR], 20.0, 30, 35.0, Revision(30, 80, 2)),
        # Resumed after 35 s, 10 steps took 15 s: there is time for four again, of which one is over.
        ([FOUR, TWO], None, 40, 50.0, Revision(40, 70, 4)),
        # Of 75 s 79 steps, so that the end is 99: 1 s is a hundredth of the time.
        ([FOUR], None, 20, 19.0, None),
    ],
)
def test_a_plan_is_revised_by_hand(plan, validation, step, elapsed, expected, tmp_path):
    write_run_folder(tmp_path)
    throughput: Any = SimpleNamespace(elapsed=0.0)
    loop = SimpleNamespace(_should_accumulate=lambda: False)
    strategy = SimpleNamespace(broadcast=lambda revision: revision)
    trainer: Any = SimpleNamespace(is_global_zero=True, fit_loop=loop, strategy=strategy)
    budget = TimeBudget(StepPlan([*plan], seconds=100.0), throughput, tmp_path)
    trainer.global_step, throughput.elapsed = (plan[-1].step, 35.0) if len(plan) > 1 else (0, 0.0)
    budget.on_train_start(trainer)
    if validation is not None:
        budget.on_validation_start()
        throughput.elapsed = validation
        budget.on_train_batch_start()
    trainer.global_step, throughput.elapsed = step, elapsed
    budget.on_train_batch_end(trainer)
    assert budget.plan.revisions == [*plan, *([] if expected is None else [expected])]


def test_validations_are_evenly_spaced():
    plan = StepPlan([Revision(0, 7, 3)])
    assert [step for step in range(9) if plan.has_validation_after(step)] == [3, 5, 7]
    # From step 4 on, 4/7 of the way, three steps are six: 4/7 + 3/7 k/6 passes 2/3 with k = 2, and is 1 with k = 6.
    plan.revisions.append(Revision(4, 10, 3))
    assert [step for step in range(12) if plan.has_validation_after(step)] == [3, 6, 10]
    assert plan.progress(6) == pytest.approx(5 / 7)
    assert (plan.progress(0), plan.progress(10), plan.progress(99)) == (0, 1, 1)


@pytest.mark.parametrize(
    "plan",
    [
        None,
        [],
        [[0, 5, 1]],
        [{"step": 0, "steps": 5}],
        [{"step": 1, "steps": 5, "validations": 1}],
        [{"step": 0, "steps": 5, "validations": 1}, {"step": 5, "steps": 9, "validations": 1}],
        [{"step": 0, "steps": 5, "validations": 1}, {"step": 0, "steps": 9, "validations": 1}],
        [{"step": 0, "steps": 0, "validations": 1}],
        [{"step": 0, "steps": 5, "validations": 0}],
        [{"step": 0, "steps": 2.5, "validations": 1}],
    ],
    ids=repr,
)
def test_an_invalid_plan_is_reported(plan):
    with pytest.raises(UserError, match=r"one/run\.json: step_plan: is not a valid step plan"):
        read_plan(Path("one"), {"budget": "steps", "step_plan": plan}, None)

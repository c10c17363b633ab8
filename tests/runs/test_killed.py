"""A run killed at any moment resumes with the results of an uninterrupted run."""

import io
import os
import signal
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

import attnx.inference.write_results
import attnx.training.callbacks.checkpoint
from attnx.training.callbacks.checkpoint import CheckpointManager
from attnx.training.callbacks.metric_rows import MetricRows
from attnx.training.lightning_module import TrainingModule
from tests.runs.conftest import exit_code, fork, kill_at, results, run_info

# Ten steps; the epochs have five batches, or three steps of two turns.
COMPOSED = {
    "chance": [
        "model.dropout=0.3",
        "attention.dropout=0.2",
        "model.scheduled_sampling=0.9",
        "trainer.num_validations=3",
    ],
    "kept": ["trainer.save_top_k=3", "trainer.num_validations=5", "optimizer.lr=0.02", "lr_schedule=cosine"],
    "patience": ["trainer.patience=6", "trainer.num_validations=10", "optimizer.lr=1e-30"],
    "turns": ["trainer.accumulate_grad_batches=2", "trainer.num_validations=3"],
    "often": ["trainer.num_validations=4", "trainer.checkpoint_minutes=1e-9"],
}
BOTH = ["trainer.max_steps=10", "trainer.checkpoint_every=2", "trainer.log_every_n_steps=3"]
# What is killed, and where: as it is called for the time that is given.
MOMENTS: dict[str, tuple[str, Any, str, int]] = {
    "before its first checkpoint": ("chance", TrainingModule, "training_step", 2),
    "in a step": ("chance", TrainingModule, "training_step", 6),
    "in a turn of a step": ("turns", TrainingModule, "training_step", 12),
    "after a checkpoint by time": ("often", TrainingModule, "training_step", 8),
    "in a validation": ("kept", TrainingModule, "validation_step", 3),
    "before a row is written": ("often", MetricRows, "on_validation_end", 2),
    "behind a row that no checkpoint knows": ("kept", CheckpointManager, "_save", 4),
    "as it begins a checkpoint": ("often", torch, "save", 5),
    "with a checkpoint that has no name yet": ("turns", os, "replace", 12),
    "before the best is named": ("kept", CheckpointManager, "_rank_last", 3),
    "while the best are moved": ("kept", Path, "replace", 2),
    "before the new best has its name": ("kept", attnx.training.callbacks.checkpoint, "atomic_write", 2),
    "as its patience is at its end": ("patience", TrainingModule, "on_test_start", 1),
    "in its test": ("chance", TrainingModule, "test_step", 1),
    "before its predictions are written": ("turns", attnx.inference.write_results, "save_predictions", 1),
}


def kept_results(folder: str) -> dict[str, Any]:
    return {name: value for name, value in results(folder).items() if "second" not in name and "memory" not in name}


def checkpoint_steps(folder: str) -> dict[str, int]:
    """The step of each checkpoint; nothing else lies beside them."""
    files = Path(folder, "checkpoints").iterdir()
    return {file.name: torch.load(file, weights_only=True)["global_step"] for file in files}


@pytest.fixture
def alike(same_weights, metric_rows):
    """Assert that two runs ended alike, bit by bit."""

    def look(first: str, second: str) -> None:
        assert same_weights([first, second])
        assert metric_rows(first) == metric_rows(second)
        assert checkpoint_steps(first) == checkpoint_steps(second)
        assert kept_results(first) == kept_results(second)
        assert Path(first, "predictions.tsv").read_bytes() == Path(second, "predictions.tsv").read_bytes()

    return look


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_resumes_with_equal_results(moment, run, run_once, succeed, alike):
    composed, *deadly = MOMENTS[moment]

    def cut() -> None:
        kill_at(*deadly)
        run(*COMPOSED[composed], *BOTH, folder="cut")

    undisturbed = run_once(*COMPOSED[composed], *BOTH, folder="whole")
    assert exit_code(fork(cut)) == -signal.SIGKILL
    assert run_info("cut")["status"] == "running"
    succeed("resume", "cut")
    assert (results(undisturbed)["steps"] < 10) == (composed == "patience")
    alike(undisturbed, "cut")


@pytest.mark.parametrize("compose_config", ["kept", "often"])
def test_a_run_killed_repeatedly_resumes_with_equal_results(compose_config, run, run_once, alike):
    from attnx.training.fit import resume

    def go_on() -> None:
        if Path("cut/run.json").is_file():
            resume("cut", Console(file=io.StringIO()))
        else:
            run(*COMPOSED[compose_config], *BOTH, folder="cut")

    def go_on_until(save: int) -> None:
        kill_at(CheckpointManager, "_save", save)
        go_on()

    undisturbed = run_once(*COMPOSED[compose_config], *BOTH, folder="whole")
    for save in (2, 2, 1):
        assert exit_code(fork(partial(go_on_until, save))) == -signal.SIGKILL
    go_on()
    alike(undisturbed, "cut")


def test_partial_files_of_a_killed_run_do_not_matter(run, work_folder):
    """It was killed while making its folder: nothing can be resumed, so the same command starts anew."""
    Path("one/checkpoints").mkdir(parents=True)
    for name in ("config.yaml", "run.json.partial"):
        Path("one", name).write_text("half", encoding="utf-8")
    run(folder="one")
    assert results("one")["steps"] == 5


def test_a_run_killed_while_drawing_is_drawn_on_resume(run, command, monkeypatch):
    run(folder="one")
    Path("one/README.md").unlink()
    saved = Path("one/checkpoints/last.ckpt").stat().st_mtime_ns
    assert command("resume", "one").code == 0
    assert Path("one/README.md").is_file()
    assert Path("one/checkpoints/last.ckpt").stat().st_mtime_ns == saved


def test_the_checkpoint_interval_is_respected(run, monkeypatch):
    """Every three steps, and where it is validated, after four and eight of eleven; then at its end; or by time."""
    steps: list[int] = []
    save = CheckpointManager._save

    def note_step(self: CheckpointManager, trainer: Any) -> None:
        steps.append(trainer.global_step)
        save(self, trainer)

    monkeypatch.setattr(CheckpointManager, "_save", note_step)
    run("trainer.max_steps=11", "trainer.num_validations=3", "trainer.checkpoint_every=3", folder="steps")
    assert steps == [3, 4, 6, 8, 9, 11]
    steps.clear()
    # 25 s pass from look to look: at each step, and as the next save is scheduled.
    clock = SimpleNamespace(monotonic=count(0, 25).__next__)
    monkeypatch.setattr(attnx.training.callbacks.checkpoint, "time", clock)
    options = ["trainer.checkpoint_minutes=1", "trainer.max_steps=8", "trainer.num_validations=1"]
    run(*options, folder="minutes")
    assert steps == [3, 6, 8]
    steps.clear()
    run("trainer.checkpoint_minutes=null", *options[1:], folder="neither")
    assert steps == [8]

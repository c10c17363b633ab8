"""``profile=true`` shows the time of each part of a training step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch._C._autograd import DeviceType

from attnx.cli import main
from attnx.training.callbacks.profile import BETWEEN, WARMUP_STEPS, PartTime, times_by_part

pytestmark = pytest.mark.usefixtures("no_pictures")
PARTS = {"source_encoder", "attention", "decoder", "output", "data", "optimizer", BETWEEN}


@pytest.mark.parametrize("schedule", ["run_then_attend", "step_by_step"])
def test_every_part_is_measured(
    schedule: str, words: Path, sized: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    steps = WARMUP_STEPS + 3
    overrides = sized(f"trainer.max_steps={steps}", "trainer.num_validations=1", f"model.schedule={schedule}")
    assert main.run([*overrides, "profile=true", "folder=one"]) == 0
    info = json.loads(Path("one/profile.json").read_text(encoding="utf-8"))
    parts = {part["part"]: part for part in info["parts"]}
    assert info["steps"] == 3
    assert parts.keys() >= PARTS
    assert all(part["forward"] >= 0 and part["backward"] >= 0 for part in parts.values())
    for learned in ("source_encoder", "attention", "decoder", "output"):
        assert parts[learned]["forward"] > 0, learned
        assert parts[learned]["backward"] > 0, learned
    assert "where a training step's" in capsys.readouterr().out
    assert "profile.json" in Path("one/README.md").read_text(encoding="utf-8")


def test_a_run_too_short_to_profile_is_reported(
    words: Path, sized: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(sized(f"trainer.max_steps={WARMUP_STEPS - 1}", "profile=true", "folder=one")) == 0
    assert f"{WARMUP_STEPS} are warm-up" in " ".join(capsys.readouterr().out.split())
    assert not Path("one/profile.json").exists()


def test_profiling_does_not_change_the_weights(words: Path, sized: Callable[..., list[str]]) -> None:
    for folder, profile in (("with", "true"), ("without", "false")):
        assert main.run(sized(f"trainer.max_steps={WARMUP_STEPS + 2}", f"profile={profile}", f"folder={folder}")) == 0
    first, second = (json.loads(Path(name, "results.json").read_text(encoding="utf-8")) for name in ("with", "without"))
    spent = {"train_seconds", "train_cpu_seconds", "train_examples_per_second", "train_tokens_per_second"}
    spent |= {"peak_memory_mb"}
    assert {name: first[name] for name in first.keys() - spent} == {
        name: second[name] for name in second.keys() - spent
    }


def test_the_profile_option_is_boolean(
    words: Path, sized: Callable[..., list[str]], command: Callable[..., Any]
) -> None:
    answer = command(*sized("profile=yes", "folder=one"))
    assert (answer.code, answer.err) == (2, "attnx: profile=yes: expected true or false\n")
    assert not Path("one").exists()


def test_kernels_of_a_gpu_count_for_the_operators_that_launched_them() -> None:
    """Two milliseconds of kernels in a step of five, whose launches took one."""
    part = SimpleNamespace(name="attnx: decoder", cpu_parent=None)
    kernel = {"cpu_parent": part, "sequence_nr": 1, "self_cpu_time_total": 1000.0}
    operator = SimpleNamespace(name="aten::mm", device_type=DeviceType.CPU, self_device_time_total=2000.0, **kernel)
    on_gpu = SimpleNamespace(name="gemm", device_type=DeviceType.CUDA, self_device_time_total=2000.0, **kernel)
    assert times_by_part([operator, on_gpu], 5.0, 1) == [PartTime(BETWEEN, 3.0, 0.0), PartTime("decoder", 2.0, 0.0)]
    assert times_by_part([operator], 5.0, 1) == [PartTime(BETWEEN, 4.0, 0.0), PartTime("decoder", 1.0, 0.0)]

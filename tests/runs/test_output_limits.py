"""Outputs as long as their references: the limit of the data, kept by a run, and what is said of too short ones."""

from pathlib import Path

import pytest

import attnx
from attnx.data.output_limit import OutputLimit
from tests.runs.conftest import run_info

FEW = ["encoder.hidden_size=7", "decoder.hidden_size=11", "trainer.max_steps=3", "trainer.num_validations=1"]
SPELLED = ["task=sequences", "task.source=characters", "task.target=characters", "task.train=spelled.tsv", *FEW]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture
def spelled(work_folder):
    """Numbers and their digits as words, some five letters each."""
    lines = [f"{n}\t{' '.join(DIGITS[int(digit)] for digit in str(n))}\n" for n in range(101, 1001, 7)]
    Path("spelled.tsv").write_text("".join(lines))


@pytest.mark.usefixtures("spelled", "no_pictures")
def test_outputs_may_be_as_long_as_the_training_targets():
    run = attnx.fit(attnx.compose([*SPELLED, "folder=run"]))
    limit = OutputLimit.load(Path("run/vocabulary/output_limit.json"))
    assert limit.ratio * 3 + limit.extra > len("seven seven seven") + 1
    reopened = attnx.open_run("run")
    assert (reopened.decoding.max_length_ratio, reopened.decoding.max_length_extra) == (limit.ratio, limit.extra)
    assert reopened.with_decoding("beam").decoding.max_length_extra == limit.extra
    assert attnx.open_run("run", decoding=("greedy", {"max_length_ratio": 1.0})).decoding.max_length_ratio == 1.0
    # Untrained, it repeats one letter to the end.
    assert len(run.predict(["123"])[0].output) == int(3 * limit.ratio) + limit.extra
    info = run_info("run")
    assert f"{limit.ratio:g} times the source" in info["output_limit"]
    assert any("outputs of the test did not end by themselves" in note for note in info["notes"])
    assert "did not end by themselves" in Path("run/README.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("spelled", "no_pictures")
def test_outputs_that_a_limit_cuts_are_counted(command, succeed):
    succeed(*SPELLED, "decoding.max_length_ratio=1", "decoding.max_length_extra=2", "folder=short")
    assert "did not end by themselves" in command("evaluate", "short").out

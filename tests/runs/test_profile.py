"""``trainer.profiler`` runs Lightning's profilers, which write into the run folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnx.cli import main

pytestmark = pytest.mark.usefixtures("words", "no_pictures")
# What each reports: calls of the trainer, Python functions, and operators of torch.
REPORTED = {"simple": "run_training_batch", "advanced": "cumtime", "pytorch": "aten::"}


@pytest.mark.parametrize("profiler", REPORTED)
def test_the_report_is_in_the_run_folder(profiler, sized):
    options = ["trainer.max_steps=11", "trainer.num_validations=1", f"trainer.profiler={profiler}"]
    assert main.run(sized(*options, "folder=one")) == 0
    assert REPORTED[profiler] in Path("one/profile/fit-profile.txt").read_text(encoding="utf-8")
    assert Path("one/profile/test-profile.txt").is_file()
    assert bool(list(Path("one/profile").glob("fit-*.pt.trace.json"))) == (profiler == "pytorch")
    assert "by Lightning's profiler" in Path("one/README.md").read_text(encoding="utf-8")


def test_an_unknown_profiler_is_refused(sized, command):
    answer = command(*sized("trainer.profiler=simpel", "folder=one"))
    assert answer.code == 2
    assert answer.err.startswith("attnx: trainer.profiler=simpel: expected one of simple, advanced, pytorch")
    assert not Path("one").exists()

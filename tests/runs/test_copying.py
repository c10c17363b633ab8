"""Complete runs with copying: reopened, resumed, aligned, exported, and refused."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from tests.runs.conftest import table

COPYING = ["task=sequences", "task.train=calls.tsv", "output=copy", "trainer.max_steps=9"]


@pytest.fixture
def calls(work_folder):
    """Whom to call, of seven names; the last one is in sources only."""
    names = ["Ann", "Ben", "Cai", "Dee", "Eve", "Flo", "Gus"]
    lines = [f"call {first} not {second}\t{first}\n" for first, second in permutations(names, 2) if first != "Gus"]
    Path("calls.tsv").write_text("".join(lines), encoding="utf-8")


def symbols_that_can_be_copied(run: Any) -> set[str]:
    return {run.source.symbols[number] for number, target in enumerate(run.model.output.target_ids.tolist()) if target}


@pytest.mark.parametrize(
    ("shared", "copied"),
    [
        ("false", {"Ann", "Ben", "Cai", "Dee", "Eve", "Flo"}),
        ("true", {"Ann", "Ben", "Cai", "Dee", "Eve", "Flo", "Gus", "call", "not"}),
    ],
)
def test_a_reopened_run_copies_equally(shared, copied, calls, run):
    """What can be copied follows from the vocabularies that lie in its folder."""
    trained = run(*COPYING, f"task.shared_vocabulary={shared}", "recipe=pointer_generator", folder="one")
    assert symbols_that_can_be_copied(trained) == copied
    again = attnx.open_run("one")
    assert symbols_that_can_be_copied(again) == copied
    rows = table("one/predictions.tsv")
    assert rows
    for repeated, row in zip(again.predict([row["source"] for row in rows]), rows, strict=True):
        assert " ".join(repeated.output) == row["prediction"]
        assert repeated.log_probability == pytest.approx(float(row["log_probability"]), abs=1e-4)


def test_copied_symbols_appear_in_alignments(calls, run, command):
    """A beam with its weights; two runs that answer together; and a name that training never met, kept."""
    for seed in (1, 2):
        run(*COPYING, f"seed={seed}", folder=f"run{seed}")
    Path("asked.txt").write_text("call Ann not Ben\ncall Zoe not Ben\n", encoding="utf-8")
    beam = ("decoding=beam", "--nbest", "3", "--alignments", "read.jsonl")
    answer = command("predict", "run1", "asked.txt", *beam)
    assert answer.code == 0
    assert answer.err.endswith("read as the unknown symbol: Zoe\n")
    alignments = [json.loads(line) for line in Path("read.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [item["rank"] for item in alignments] == [1, 2, 3] * 2
    for entry in alignments:
        weights = np.array(entry["weights"])
        assert weights.shape[-1] == 4
        assert np.allclose(weights.sum(-1), 1, atol=1e-3)
    assert command("predict", "run1", "run2", "asked.txt", "decoding=sampling").code == 0
    assert "Zoe" in command("predict", "run1", "asked.txt", "--unknown", "keep").out


def test_nothing_to_copy_is_reported_before_anything_is_written(words, refuse, small):
    """Letters and sounds have no symbol in common."""
    assert "these have none in common; use output=linear" in refuse(*small, "output=copy", "folder=one")


def test_a_shared_vocabulary_needs_symbols(refuse, calls):
    line = refuse("task=sequences", "task.train=calls.tsv", "task.source=features", "task.shared_vocabulary=true")
    assert "task.shared_vocabulary=true has no effect beside task.source=features; leave it out" in line

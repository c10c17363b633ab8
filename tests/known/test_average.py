"""Averages of checkpoints, and the selection of the best ones, by hand."""

import math
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnx.files.atomic_files import atomic_write
from attnx.inference.checkpoint import average_weights, read_weights
from attnx.training.callbacks.checkpoint import CheckpointManager


def test_means_of_weights_and_the_last_count(tmp_path):
    """(1 + 2 + 6) / 3 = 3; halves stay halves; of three counts the last; and what is no model's is left out."""
    paths = []
    for number, value in enumerate([1.0, 2.0, 6.0]):
        state = {
            "model.w": torch.full((2, 3), value),
            "model.half": torch.full((5,), value).half(),
            "model.seen": torch.tensor(7 + number),
            "metric.total": torch.ones(11),
        }
        paths.append(tmp_path / f"{number}.ckpt")
        torch.save({"state_dict": state}, paths[-1])
    result = average_weights(map(read_weights, paths))
    assert result.keys() == {"w", "half", "seen"}
    assert result["w"].tolist() == [[3.0] * 3] * 2
    assert result["w"].dtype == torch.float32
    assert result["half"].tolist() == [3.0] * 5
    assert result["half"].dtype == torch.float16
    assert result["seen"].item() == 9


def test_the_mean_is_computed_in_double_precision():
    """The sum is 2^24 + 4; in float32 the ones would be lost beside 2^24."""
    states = [{"w": torch.tensor([value])} for value in (2.0**24, 1.0, 1.0, 2.0)]
    assert average_weights(states)["w"].item() == 2**22 + 1


def save(step: int, path: Path) -> None:
    """As the trainer does: the old file stays what it is where it has another name."""
    with atomic_write(path) as file:
        file.write_text(str(step), encoding="utf-8")


def validate(keep: CheckpointManager, results: list[float], losses: list[float] | None = None) -> None:
    """Validate with these results; what is saved is the number of the validation."""
    for step, value in enumerate(results):
        trainer: Any = SimpleNamespace(
            global_step=step,
            is_global_zero=True,
            should_stop=False,
            callback_metrics={"valid_per": value, "valid_loss": losses[step] if losses else 7.0},
            save_checkpoint=partial(save, step),
        )
        keep.on_validation_end(trainer, None)


def saved_steps(folder: Path) -> dict[str, int]:
    return {file.stem: int(file.read_text(encoding="utf-8")) for file in folder.iterdir()}


STATE = {"rank": 0, "validated_step": 5, "saved_step": 5, "has_stopped": True}
RESULTS = [5.0, 3.0, 7.0, 3.0, math.nan, 2.0, 11.0]


@pytest.mark.parametrize(
    ("options", "results", "losses", "kept"),
    [
        # 2 was the sixth, the first 3 the second, the other the fourth.
        ({"count": 3}, RESULTS, None, {"best": 5, "best-2": 1, "best-3": 3, "last": 6}),
        ({}, RESULTS[:5], None, {"best": 1, "last": 4}),
        ({"count": 2, "maximize": True}, RESULTS, None, {"best": 6, "best-2": 2, "last": 6}),
        ({"count": 2}, [0.0] * 4, [5.0, 3.0, 2.0, 11.0], {"best": 2, "best-2": 1, "last": 3}),  # by the loss
        ({"count": 2}, [math.inf, math.nan, math.nan], None, {"best": 0, "best-2": 1, "last": 2}),
    ],
)
def test_the_best_checkpoints_and_the_last_are_kept(options, results, losses, kept, tmp_path):
    """By rank, nothing but these: one by default, of equal results the lowest loss, and some if no value is finite."""
    validate(CheckpointManager(tmp_path, "valid_per", **options), results, losses)
    assert saved_steps(tmp_path) == kept


def refuse_link(*paths: Path) -> None:
    raise OSError


@pytest.mark.parametrize("link", [os.link, refuse_link])
def test_a_resumed_run_remembers_the_best_value(link, tmp_path, monkeypatch):
    """Also where the file system has no hard links."""
    monkeypatch.setattr(os, "link", link)
    keep = CheckpointManager(tmp_path, "valid_per", count=2)
    keep.load_state_dict({"lowest_values": [(3.0, 1.0), (5.0, 1.0)], **STATE})
    assert keep.has_stopped
    validate(keep, [4.0])
    assert saved_steps(tmp_path) == {"best-2": 0, "last": 0}
    assert keep.lowest_values == [(3.0, 1.0), (4.0, 7.0)]
    assert keep.state_dict() == {
        "lowest_values": [(3.0, 1.0), (4.0, 7.0)],
        "rank": 1,
        "validated_step": 0,
        "saved_step": 0,
        "has_stopped": False,
    }


def test_a_foreign_checkpoint_moves_no_file(tmp_path):
    """Its state names paths, which a resumed run would write."""
    inside, outside = tmp_path / "run", tmp_path / "outside.ckpt"
    inside.mkdir()
    keep = CheckpointManager(inside, "valid_per")
    paths = {"last": outside, "best": outside, "ranked": [outside], "_save": print}
    keep.load_state_dict({"lowest_values": [(3.0, 1.0)], **STATE, **paths})
    validate(keep, [2.0])
    assert saved_steps(inside) == {"best": 0, "last": 0}
    assert not outside.exists()

"""The page on architecture shows a training step as it runs: its files exist, and are entered in its order."""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import attnx
from attnx import accel
from attnx.accel.lstm import bindings
from attnx.config.compose import compose
from attnx.data.batches import Batch
from attnx.laws.small import SOURCE_SYMBOLS, TARGET_SYMBOLS, small_model
from attnx.tasks.loss import token_loss

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
Call = tuple[str, str]  # a file in attnx/, and a function in it


def page_calls(column: int) -> list[Call]:
    """The calls of the table: as defined, or by default, where an empty cell is as defined."""
    section = PAGE.read_text(encoding="utf-8").partition("## A training step")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    cells = [row[column] if len(row) > column and row[column] else row[1] for row in rows]
    return [call for cell in cells for call in re.findall(r"`([\w/]+\.py)` `([\w.]+)`", cell)]


def small_batch() -> Batch:
    source, target = torch.randint(4, SOURCE_SYMBOLS, (29, 7)), torch.randint(4, TARGET_SYMBOLS, (29, 5))
    masks = torch.ones_like(source, dtype=torch.bool), torch.ones_like(target, dtype=torch.bool)
    return Batch(source, masks[0], target, masks[1], torch.arange(29), torch.zeros(29, dtype=torch.long))


def entered_calls(compute: Callable[[], object]) -> list[Call]:
    """The functions of attnx that a computation enters, each when it is first entered."""
    package, calls = Path(attnx.__file__).parent, {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(package):
            calls.setdefault((file.relative_to(package).as_posix(), frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        compute()
    finally:
        sys.setprofile(None)
    return list(calls)


def calls_of_a_step(model: Any) -> list[Call]:
    """The functions that a teacher-forced step enters, its loss included."""
    batch = small_batch()
    return entered_calls(lambda: token_loss(model.train(), batch))


def test_the_step_as_defined_is_in_the_order_of_the_page():
    listed = page_calls(1)
    assert len(listed) > 15
    assert [call for call in calls_of_a_step(small_model(compose([]))) if call in listed] == listed


@pytest.mark.skipif(bindings.library() is None, reason="no C compiler")
def test_the_step_by_default_is_in_the_order_of_the_page():
    listed = page_calls(2)
    assert len(set(listed) - set(page_calls(1))) > 4
    assert [call for call in calls_of_a_step(accel.enable(small_model(compose([])))) if call in listed] == listed


def test_the_page_says_how_many_files_the_model_enters():
    """Few are read to follow a step. They are counted from the call of the model on, without the loss."""
    stated = re.search(r"(\d+) files of `attnx/`, by default (\d+)", PAGE.read_text(encoding="utf-8"))
    assert stated is not None
    batch, models = small_batch(), [small_model(compose([])).train()]
    if bindings.library() is not None:
        models.append(accel.enable(small_model(compose([])).train()))
    calls = [entered_calls(partial(model, batch.source, batch.source_mask, batch.target)) for model in models]
    counts = [len({file for file, _ in calls_of_model}) for calls_of_model in calls]
    assert counts == [int(count) for count in stated.groups()][: len(models)]


def test_the_page_names_files_that_exist():
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", text)
    assert len(names) > 30
    assert [name for name in names if not ((ROOT / name).exists() or (ROOT / "attnx" / name).exists())] == []

"""Training steps of attnx and of the loop by hand in this process, and a look at some of them."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from peers import by_hand
from peers.training import ATTNX, SIZES, draw, write_pairs
from peers.words import write_words
from rich.console import Console
from torch.optim.optimizer import register_optimizer_step_post_hook
from training_speed import SCHEDULES as OVERRIDES

import attnx
from attnx.data.readers.cmudict import read_cmudict
from attnx.registry import with_defaults
from attnx.training.plan_steps import plan_steps
from attnx.training.run_folder import create_run_folder
from attnx.training.train import prepare, train
from attnx.training.trainer import set_tf32
from gpu_sections.cases import Setting
from gpu_sections.timing import synchronize

SCHEDULES = {row.removeprefix("attnx, "): overrides for row, overrides in OVERRIDES.items()}
"""The overrides of each schedule."""
PRECISIONS = {"float32": "32", "bfloat16": "bf16-mixed", "tf32": "tf32"}
Train = Callable[[int], None]
"""Take so many optimizer steps."""


class Steps(NamedTuple):
    """How many steps are a warm-up, and how many are looked at."""

    warmup: int
    measured: int


# CUDA graphs are recorded for each length of a batch, so that a warm-up has to meet most of them.
STEPS, CHECK_STEPS = Steps(150, 150), Steps(2, 3)
CHECK_SIZES = {"batch": 16, "embedding": 8, "encoder": 8, "decoder": 8}


def sizes(setting: Setting) -> Mapping[str, int]:
    """Rows of a batch and widths of the model."""
    return CHECK_SIZES if setting.is_check else SIZES


def corpus(setting: Setting) -> Path:
    """A file of pairs; less those of validation and test, they are about as many as all steps train on."""
    file = setting.folder / "pairs.tsv"
    if not file.exists():
        if setting.is_check:
            write_words(3, file)
        else:
            write_pairs(draw(read_cmudict(), sum(STEPS) * SIZES["batch"] * 5 // 4), file)
    return file


def train_attnx(setting: Setting, schedule: str, precision: str, extra: Sequence[str], updates: int) -> None:
    """Take optimizer steps as the command does, in this process and without pictures.

    Raises:
        RuntimeError: steps that are to be compiled cannot be.
    """
    with tempfile.TemporaryDirectory(dir=setting.folder) as parent:
        values = {"pairs": corpus(setting), "folder": Path(parent) / "run", "updates": updates, **sizes(setting)}
        overrides = [override.format(**values) for override in (*ATTNX, *SCHEDULES[schedule], *extra)]
        config = attnx.compose([*overrides, setting.accelerator, f"trainer.precision={PRECISIONS[precision]}"])
        prepared, console = prepare(with_defaults(config)), Console(file=io.StringIO())
        if (prepared.compiled or "").startswith("not compiled"):  # else the row would be one of plain steps
            raise RuntimeError(prepared.compiled)
        with create_run_folder(prepared, ()) as folder:
            train(prepared, folder, plan_steps(prepared, folder, console), console)


def train_by_hand(setting: Setting, schedule: str, precision: str, updates: int) -> None:
    """Take optimizer steps of the same model in plain torch."""
    batches, symbols = by_hand.make_batches(by_hand.read_pairs(corpus(setting)), sizes(setting)["batch"])
    set_tf32(PRECISIONS[precision])
    torch.manual_seed(0)
    model = by_hand.HandWrittenModel(schedule, symbols, sizes(setting))
    batches_of_updates = itertools.islice(itertools.cycle(batches), updates)
    by_hand.train(model, batches_of_updates, setting.device, precision == "bfloat16")


@contextlib.contextmanager
def watch_steps(steps: Steps, begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Call ``begin`` after the warm-up's last optimizer step of this process and ``end`` after the last measured."""
    calls = {steps.warmup: begin, sum(steps): end}
    count = itertools.count(1)
    handle = register_optimizer_step_post_hook(lambda *_: calls.get(next(count), lambda: None)())
    try:
        yield
    finally:
        handle.remove()


def words_per_second(setting: Setting, take_steps: Train) -> float:
    """The speed of complete steps after a warm-up."""
    steps, stamps = CHECK_STEPS if setting.is_check else STEPS, []

    def stamp() -> None:
        synchronize(setting.device)
        stamps.append(time.perf_counter())

    with watch_steps(steps, stamp, stamp):
        take_steps(sum(steps) + 1)
    start, end = stamps
    return steps.measured * sizes(setting)["batch"] / (end - start)

"""Decoding speed of a trained model, greedily and by a beam of 5: attnx, and the same model and search by hand."""

from __future__ import annotations

import functools
import io
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from lightning.fabric.utilities import move_data_to_device
from peers.by_hand import HandWrittenModel, read_pairs, weights_of_attnx
from peers.decoding_by_hand import search
from peers.training import ATTNX as OVERRIDES
from rich.console import Console

import attnx
from attnx.data.batches import Batch, as_batch
from attnx.data.examples import Pair
from attnx.inference.trained_run import TrainedRun
from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import ATTNX, BY_HAND, RUN_THEN_ATTEND, SEARCHES, WORDS, search_row
from gpu_sections.steps import SCHEDULES, corpus, sizes
from gpu_sections.timing import synchronize

BEAM_SIZES = dict(zip(SEARCHES, (1, 5), strict=True))
TRAINING_STEPS, CHECK_STEPS = 600, 3
BATCH_WORDS, NUM_WORDS, CHECK_WORDS = 256, 4096, 32
LIMIT_RATIO, LIMIT_EXTRA = 2, 5
"""An output has at most so many symbols per letter, and more; attnx's defaults."""
Decode = Callable[[list[Pair]], list[int]]
"""Decode a batch of words of similar length, and return the lengths of the outputs."""


def cases(setting: Setting) -> Iterator[Case]:
    """Both searches; the first case trains the model."""
    seconds = 22.0
    for name in SEARCHES:
        yield Case(search_row(ATTNX, name), partial(_measure, setting, ATTNX, name), seconds)
        seconds = 6.0
        yield Case(search_row(BY_HAND, name), partial(_measure, setting, BY_HAND, name), seconds)


@functools.cache
def _trained(setting: Setting) -> TrainedRun:
    """A model of the sizes of the training section, on the device."""
    updates = CHECK_STEPS if setting.is_check else TRAINING_STEPS
    values = {"pairs": corpus(setting), "folder": setting.folder / "decoded", "updates": updates, **sizes(setting)}
    overrides = [override.format(**values) for override in (*OVERRIDES, *SCHEDULES[RUN_THEN_ATTEND])]
    config = attnx.compose([*overrides, setting.accelerator, "trainer.precision=32"])
    return attnx.fit(config, console=Console(file=io.StringIO()))


def _measure(setting: Setting, row: str, name: str) -> Figures:
    """Words a second, in batches of words of similar length, after a batch that is not timed."""
    size = BEAM_SIZES[name]
    run = _trained(setting).with_decoding("greedy" if size == 1 else ("beam", {"beam_size": size}))
    run.model.to(setting.device).eval()
    decode = {ATTNX: _by_attnx, BY_HAND: _by_hand}[row](run, setting, size)
    words = [word for word, _ in read_pairs(corpus(setting))][: CHECK_WORDS if setting.is_check else NUM_WORDS]
    pairs = [run.pair(word) for word in sorted(words, key=len)]
    batches = [pairs[start : start + BATCH_WORDS] for start in range(0, len(pairs), BATCH_WORDS)]
    with torch.inference_mode():
        decode(batches[0])
        synchronize(setting.device)
        start = time.perf_counter()
        lengths = [length for batch in batches for length in decode(batch)]
        seconds = time.perf_counter() - start
    return {WORDS: len(words) / seconds, "mean length of outputs": sum(lengths) / len(lengths)}


def _batch(run: TrainedRun, pairs: list[Pair], device: torch.device) -> Batch:
    batch: Batch = move_data_to_device(as_batch(run.data.evaluation_dataset(pairs)), device)
    return batch


def _by_attnx(run: TrainedRun, setting: Setting, beam_size: int) -> Decode:
    def decode(pairs: list[Pair]) -> list[int]:
        predictions = run.decode_batch(pairs, _batch(run, pairs, setting.device))
        return [len(prediction.output) for prediction in predictions]

    return decode


def _by_hand(run: TrainedRun, setting: Setting, beam_size: int) -> Decode:
    state = run.model.state_dict()
    symbols = len(state["source_encoder.embedding.weight"]), len(state["output.weight"])
    model = HandWrittenModel(RUN_THEN_ATTEND, symbols, sizes(setting))
    model.load_state_dict(weights_of_attnx(model, state))
    model.to(setting.device).eval()

    def decode(pairs: list[Pair]) -> list[int]:
        batch = _batch(run, pairs, setting.device)
        limit = LIMIT_RATIO * batch.source.shape[1] + LIMIT_EXTRA
        return [*map(len, search(model, batch.source, batch.source_mask.sum(1).cpu(), beam_size, limit))]

    return decode

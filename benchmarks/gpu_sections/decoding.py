"""Decoding speed of the trained main run, greedily and by a beam of 5."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
from lightning.fabric.utilities import move_data_to_device
from peers.by_hand import read_pairs

import attnx
from attnx.data.batches import as_batch
from attnx.data.examples import Pair
from attnx.inference.trained_run import TrainedRun
from attnx.registry import PartSpec
from gpu_sections.cases import Case, Figures, NotRunError, Setting
from gpu_sections.main_run import run_folder
from gpu_sections.steps import corpus
from gpu_sections.timing import synchronize

SEARCHES: dict[str, PartSpec] = {"greedy": "greedy", "beam of 5": ("beam", {"beam_size": 5})}
BATCH_WORDS, NUM_WORDS, CHECK_WORDS = 256, 4096, 32


def cases(setting: Setting) -> Iterator[Case]:
    """Both searches."""
    for name, search in SEARCHES.items():
        yield Case(name, partial(_measure, setting, search))


def _measure(setting: Setting, search: PartSpec) -> Figures:
    """Words a second, in batches of words of similar length, after a batch that is not timed."""
    if not (run_folder(setting) / "results.json").is_file():
        raise NotRunError("there is no trained main run")
    run = attnx.open_run(run_folder(setting), decoding=search)
    run.model.to(setting.device)
    words = [word for word, _ in read_pairs(corpus(setting))][: CHECK_WORDS if setting.is_check else NUM_WORDS]
    pairs = [run.pair(word) for word in sorted(words, key=len)]
    batches = [pairs[start : start + BATCH_WORDS] for start in range(0, len(pairs), BATCH_WORDS)]
    _decode(run, batches[0], setting.device)
    start = time.perf_counter()
    lengths = [length for batch in batches for length in _decode(run, batch, setting.device)]
    seconds = time.perf_counter() - start
    return {"words/s": len(words) / seconds, "mean length of outputs": sum(lengths) / len(lengths)}


def _decode(run: TrainedRun, pairs: list[Pair], device: torch.device) -> list[int]:
    """Decode a batch on a device, and return the lengths of the outputs."""
    with torch.inference_mode():
        batch = move_data_to_device(as_batch(run.data.evaluation_dataset(pairs)), device)
        predictions = run.decode_batch(pairs, batch)
    synchronize(device)
    return [len(prediction.output) for prediction in predictions]

"""Saves the attention weights of some test examples, and of positions the points, for pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attnx.data.batches import collate
from attnx.data.dataset import PairDataset
from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.inference.write_alignments import save_alignments
from attnx.runs.layout import VOCABULARY
from attnx.runs.saved_sources import write_points
from attnx.training.lightning_module import TrainingModule
from attnx.training.self_attention_maps import self_attention_maps

MAX_EXAMPLES: Final = 100


def save_examples(module: TrainingModule, rows: PairDataset, folder: Path) -> None:
    """Decode test examples, evenly from short to long, with their weights, and save these.

    Args:
        module: after its test.
        rows: the test examples, encoded.
        folder: the run's.
    """
    pairs = module.data.pairs.test
    by_length = sorted(range(len(pairs)), key=lambda row: len(pairs[row].source))
    indices = sorted(by_length[index] for index in evenly_spaced_indices(len(by_length), MAX_EXAMPLES))
    batch = collate([rows[index] for index in indices])
    module.eval().cpu().float()
    predictions = module.predictor.decode_batch([pairs[index] for index in indices], batch, need_weights=True)
    if any(prediction.weights is not None for prediction in predictions):
        save_alignments(folder, predictions, self_attention_maps(module.predictor, predictions))
    if getattr(module.task, "positions", False):
        write_points(folder / VOCABULARY, [pair.features for pair in pairs if pair.features is not None])

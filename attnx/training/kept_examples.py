"""Keeps some of a test's examples, to be drawn: how they were read, and of positions the points they are in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attnx.data.batches import PairDataset, collate
from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.data.points_file import write_points
from attnx.runs.layout import VOCABULARY
from attnx.training import run_folder
from attnx.training.lightning_module import TrainingModule
from attnx.training.self_attention_maps import of_itself

KEPT: Final = 100
"""So many test examples get their alignment kept; twelve are drawn."""


def keep_examples(experiment: TrainingModule, rows: PairDataset, folder: Path) -> None:
    """Decode some test examples again with their weights, evenly from short to long, and write these.

    Where answers are positions, write the points of the first ones, too.

    Args:
        experiment: the run, tested.
        rows: the test examples as the model reads them.
        folder: the run's.
    """
    pairs = experiment.data.pairs.test
    by_length = sorted(range(len(pairs)), key=lambda row: len(pairs[row].source))
    chosen = sorted(by_length[place] for place in evenly_spaced_indices(len(by_length), KEPT))
    batch = collate([rows[row] for row in chosen])
    decoded = experiment.eval().cpu().float().decode([pairs[row] for row in chosen], batch, need_weights=True)
    if any(one.weights is not None for one in decoded):
        run_folder.save_alignments(folder, decoded, of_itself(experiment, decoded))
    if getattr(experiment.task, "positions", False):
        write_points(folder / VOCABULARY, [pair.features for pair in pairs if pair.features is not None])

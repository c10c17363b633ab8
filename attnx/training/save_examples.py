"""Saves the attention weights of some test examples, and what the task needs of their sources, for pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attnx.data.batches import as_batch, collate
from attnx.data.dataset import PairDataset
from attnx.data.evenly_spaced import evenly_by_length
from attnx.data.features import FeatureScaler
from attnx.files.atomic_files import write_arrays
from attnx.inference.predictor import Prediction, Predictor
from attnx.models.resolve import ResolvedConfig
from attnx.runs.alignments import alignment_arrays
from attnx.runs.layout import ALIGNMENTS, VOCABULARY
from attnx.tasks.contract import SequenceTask
from attnx.training.lightning_module import TrainingModule

# How many examples have their attention weights saved, and how many the maps of every self-attention head.
MAX_EXAMPLES, MAX_SELF_ATTENTION_EXAMPLES = 100, 3
# Numbers of a source whose features are saved for the player of the run's page: 64 KiB.
MAX_SAVED_FEATURES = 16_384
Maps = Mapping[str, npt.NDArray[np.float32]]


def save_examples(module: TrainingModule, rows: PairDataset, resolved: ResolvedConfig, folder: Path) -> None:
    """Decode test examples, evenly from short to long; save their weights, and what pictures need of the sources."""
    module.eval().cpu().float()
    pairs = module.data.pairs.test
    indices = evenly_by_length([pair.source for pair in pairs], MAX_EXAMPLES)
    batch = collate([rows[index] for index in indices])
    predictions = module.predictor.decode_batch([pairs[index] for index in indices], batch, need_weights=True)
    if any(prediction.weights is not None for prediction in predictions):
        maps = _self_attention_maps(module.predictor, predictions)
        save_alignments(folder, predictions, module.task, resolved, maps)
    module.task.save_sources(folder / VOCABULARY, pairs)


@torch.no_grad()
def _self_attention_maps(predictor: Predictor, predictions: Sequence[Prediction]) -> dict[int, Maps]:
    """The weights (layers h, t, t) of each stream by its name, by the indices of some predictions.

    They are recomputed in one parallel pass, and equal those of step-by-step decoding. Empty for models without
    self-attention.
    """
    model: Any = predictor.model
    target: Any = predictor.data.target
    if not hasattr(model, "self_attention_weights"):
        return {}
    start = model.target.start_input(1, torch.device("cpu"))
    with_weights = [(index, item) for index, item in enumerate(predictions) if item.weights is not None]
    maps: dict[int, Maps] = {}
    for place in evenly_by_length([item.pair.source for _, item in with_weights], MAX_SELF_ATTENTION_EXAMPLES):
        index, prediction = with_weights[place]
        batch = as_batch(predictor.data.evaluation_dataset([prediction.pair]))
        output = torch.as_tensor(target.encode(prediction.output))[None]
        if isinstance(target, FeatureScaler):  # the model reads the first of several quantiles
            output = output[..., : target.width]
        source, output = model.target.prepare(batch.source, output)
        assert prediction.weights is not None
        inputs = torch.cat([start[:, None], output.to(start.dtype)], dim=1)[:, : prediction.weights.shape[-2]]
        streams = model.self_attention_weights(source, batch.source_mask, inputs, batch.tag)
        if streams:
            maps[index] = {name: weights[0].float().numpy() for name, weights in streams.items()}
    return maps


def save_alignments(
    folder: Path,
    predictions: Sequence[Prediction],
    task: SequenceTask,
    resolved: ResolvedConfig,
    self_attention: Mapping[int, Maps],
) -> None:
    """Write the weights of each prediction with its symbols, or the names of its steps, and whether it is right.

    Alternatives go to ``NNN-2.npz``, ``NNN-3.npz`` and so on. ``self_attention`` has the maps of each stream by the
    index of the prediction; they go with the best hypothesis.
    """
    (folder / ALIGNMENTS).mkdir(exist_ok=True)
    sites, streams = resolved.sites, resolved.self_attention_sites
    for index, best in enumerate(predictions):
        for rank, prediction in enumerate((best, *best.alternatives), start=1):
            alignment = prediction.scored_alignment(task)
            if alignment is None:
                continue
            # What else is needed to decode the example again, symbols that are no columns among it.
            pair = prediction.pair
            is_small = pair.features is not None and pair.features.size <= MAX_SAVED_FEATURES
            alignment = alignment._replace(
                tag=pair.tag,
                features=pair.features if is_small else None,
                unaligned_source=() if alignment.source_symbols else pair.source,
                sites=() if alignment.heads is None else sites,
            )
            for stream, maps in self_attention.get(index, {}).items() if rank == 1 else ():
                fields: dict[str, Any] = {stream: maps, f"{stream}_sites": streams[stream]}
                alignment = alignment._replace(**fields)
            name = f"{index:03d}" + (f"-{rank}" if rank > 1 else "")
            write_arrays(folder / ALIGNMENTS / f"{name}.npz", alignment_arrays(alignment))

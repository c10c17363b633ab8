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
from attnx.inference.predictor import Prediction, Predictor
from attnx.inference.write_results import save_alignments
from attnx.models.resolve import ResolvedConfig
from attnx.runs.layout import VOCABULARY
from attnx.training.lightning_module import TrainingModule

# How many examples have their attention weights saved, and how many the maps of every self-attention head.
MAX_EXAMPLES, MAX_SELF_ATTENTION_EXAMPLES = 100, 3
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


@torch.inference_mode()
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

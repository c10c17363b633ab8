"""Self-attention weights of a model's encoder and decoder for some predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attnx.data.batches import as_batch
from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.data.features import Features
from attnx.inference.predictor import Prediction, Predictor
from attnx.nn.targets.forecast import subtract_last_value

# Examples of a run, from short to long; each has a map for every head of the model.
MAX_EXAMPLES = 3
Maps = Mapping[str, npt.NDArray[np.float32]]


def self_attention_maps(predictor: Predictor, predictions: Sequence[Prediction]) -> dict[int, Maps]:
    """The weights (layers h, t, t) of each stream by its name, by the indices of some predictions.

    They are recomputed in one parallel pass, and equal those of step-by-step decoding. Empty for models without
    self-attention.
    """
    if not hasattr(predictor.model, "self_attention_weights"):
        return {}
    with_weights = (index for index, prediction in enumerate(predictions) if prediction.weights is not None)
    by_length = sorted(with_weights, key=lambda index: len(predictions[index].pair.source))
    indices = sorted(by_length[index] for index in evenly_spaced_indices(len(by_length), MAX_EXAMPLES))
    return {index: maps for index in indices if (maps := _maps(predictor, predictions[index]))}


@torch.inference_mode()
def _maps(predictor: Predictor, prediction: Prediction) -> Maps:
    assert prediction.weights is not None
    model: Any = predictor.model
    target: Any = predictor.data.target
    batch = as_batch(predictor.data.evaluation_dataset([prediction.pair]))
    start = model.target.start_input(1, torch.device("cpu"))
    output = target.encode(prediction.output)
    source, last = subtract_last_value(model.target, batch.source)
    if isinstance(target, Features):  # the model reads the first of several quantiles
        output = output[:, : target.width] - (0 if last is None else last[0, :, : target.width].numpy())
    inputs = torch.cat([start[:, None], torch.as_tensor(output, dtype=start.dtype)[None]], dim=1)
    steps = prediction.weights.shape[-2]
    streams = model.self_attention_weights(source, batch.source_mask, inputs[:, :steps], batch.tag)
    return {name: weights[0].float().numpy() for name, weights in streams.items()}

"""What a model's streams read of themselves as some examples were written, which a search does not look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.data.features import Features
from attnx.nn.targets.forecast import subtract_last_value
from attnx.training.lightning_module import Prediction, TrainingModule

# So many examples of a run, from short to long: each has as many maps as the model has heads.
SHOWN = 3
Maps = Mapping[str, npt.NDArray[np.float32]]


def of_itself(experiment: TrainingModule, predictions: Sequence[Prediction]) -> dict[int, Maps]:
    """By the numbers of some predictions, what each stream of the model read of itself: (layers h, t, t) by its name.

    Whoever writes step by step reads what one pass over all that was written reads, so it is read again at once.
    Nothing of models that have no such streams.
    """
    if not hasattr(experiment.model, "self_attention_weights"):
        return {}
    by_length = sorted(
        (number for number, one in enumerate(predictions) if one.weights is not None),
        key=lambda number: len(predictions[number].pair.source),
    )
    numbers = sorted(by_length[place] for place in evenly_spaced_indices(len(by_length), SHOWN))
    return {number: found for number in numbers if (found := _maps(experiment, predictions[number]))}


@torch.inference_mode()
def _maps(experiment: TrainingModule, one: Prediction) -> Maps:
    assert one.weights is not None
    model: Any = experiment.model
    target = experiment.data.target
    batch = experiment.data.judged_rows([one.pair]).whole()
    first = model.target.start_input(1, torch.device("cpu"))
    written: Any = target.encode(one.output)
    source, last = subtract_last_value(model.target, batch.source)
    if isinstance(target, Features):  # of several quantiles the first is what is read
        written = written[:, : target.width] - (0 if last is None else last[0, :, : target.width].numpy())
    inputs = torch.cat([first[:, None], torch.as_tensor(written, dtype=first.dtype)[None]], dim=1)
    steps = one.weights.shape[-2]
    found = model.self_attention_weights(source, batch.present, inputs[:, :steps], batch.tag)
    return {stream: weights[0].float().numpy() for stream, weights in found.items()}

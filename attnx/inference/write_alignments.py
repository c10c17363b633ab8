"""Writes the attention weights of predictions to ``alignments/NNN.npz``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnx import registry
from attnx.inference.predictor import Prediction
from attnx.metrics.nearest_reference import nearest_reference
from attnx.models.resolve import resolve_model
from attnx.runs.alignments import END
from attnx.runs.layout import ALIGNMENTS
from attnx.runs.run import Run

# Numbers of a source whose features are saved for the player of the run's page: 64 KiB.
MAX_SAVED_FEATURES = 16_384
SelfAttention = Mapping[int, Mapping[str, Any]]


def save_alignments(
    folder: Path, predictions: Sequence[Prediction], self_attention: SelfAttention | None = None
) -> None:
    """Write the weights of each prediction with its symbols, or the names of its steps.

    Alternatives go to ``NNN-2.npz``, ``NNN-3.npz`` and so on. ``self_attention`` has the maps of each stream by the
    index of the prediction; they go with the best hypothesis.
    """
    (folder / ALIGNMENTS).mkdir(exist_ok=True)
    config = Run(folder).config
    resolved = resolve_model(config) if config else None
    sites, streams = getattr(resolved, "sites", ()), getattr(resolved, "self_attention_sites", {})
    continues = bool(config and registry.describe("task", config["task"]["name"]).properties.get("continues"))
    for index, best in enumerate(predictions):
        for rank, prediction in enumerate((best, *best.alternatives), start=1):
            if prediction.weights is None:
                continue
            arrays = alignment_arrays(prediction, prediction.weights, sites) | _source_arrays(prediction)
            arrays["is_scored"] = np.array(not continues)
            for stream, maps in (self_attention or {}).get(index, {}).items() if rank == 1 else ():
                arrays |= {stream: maps, f"{stream}_sites": np.array(streams[stream])}
            name = f"{index:03d}" + (f"-{rank}" if rank > 1 else "")
            np.savez_compressed(folder / ALIGNMENTS / f"{name}.npz", **arrays)


def alignment_arrays(
    prediction: Prediction, weights: np.ndarray[Any, np.dtype[np.float32]], sites: Sequence[str] = ()
) -> dict[str, Any]:
    """The arrays of an alignment file; ``sites`` names the attention of the model that each head belongs to."""
    output, reference = _step_names(prediction)
    states = prediction.num_decoder_states
    source = prediction.pair.source if weights.shape[-1] > states else ()
    scores = {"score": prediction.score, "log_probability": prediction.log_probability}
    return {
        "weights": weights.mean(0) if weights.ndim == 3 else weights,
        "source": np.array([*source, *output[:states]]),  # a decoder state goes by its output
        "output": np.array(output),
        "reference": np.array(reference),
        "num_decoder_states": np.array(states),
        "name": np.array(prediction.pair.name),
        "is_numeric": np.array(prediction.pair.target is not None),
        **({"heads": weights} if weights.ndim == 3 else {}),
        **({"sites": np.array(sites)} if sites and weights.ndim == 3 else {}),
        **{name: np.array(value) for name, value in scores.items() if not math.isnan(value)},
    }


def _source_arrays(prediction: Prediction) -> dict[str, Any]:
    """What else is needed to decode an example again: its tag, its features, and symbols that are no columns."""
    pair, arrays = prediction.pair, {}
    if pair.tag:
        arrays["tag"] = np.array(pair.tag)
    if pair.features is not None and pair.features.size <= MAX_SAVED_FEATURES:
        arrays["features"] = pair.features
    if prediction.weights is not None and prediction.weights.shape[-1] == prediction.num_decoder_states:
        arrays["unaligned_source"] = np.array(pair.source)
    return arrays


def _step_names(prediction: Prediction) -> tuple[list[str], Sequence[str]]:
    """The name of each step of the output and of the reference; steps of matrices are named by the reference."""
    if prediction.pair.target is None:
        assert prediction.weights is not None
        assert isinstance(prediction.output, list)
        output = [*prediction.output, END][: prediction.weights.shape[-2]]
        return output, nearest_reference(prediction.output, prediction.pair.references)[1]
    (names,) = prediction.pair.references
    numbers = range(len(names), len(prediction.output))
    return [*names, *map(str, numbers)][: len(prediction.output)], names

"""Builds a run's model for the vocabularies of its data."""

from __future__ import annotations

import torch

from attnx import accel
from attnx.data.features import FeatureScaler
from attnx.data.paths import resolve_data_path
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.models.resolve import DataSizes, ResolvedConfig
from attnx.nn.pretrained import load_vectors
from attnx.tasks.contract import SequenceData


def build_model(resolved: ResolvedConfig, data: SequenceData) -> torch.nn.Module:
    """Build the model for a task's vocabularies, with pretrained vectors from ``model.source_vectors`` and the like."""
    model, config = new_model(resolved, data), resolved.config
    for side, module_name in (("source", "source_encoder.embedding"), ("target", "embedding")):
        option, vocabulary = f"{side}_vectors", getattr(data, side)
        if config["model"].get(option):
            if not isinstance(vocabulary, Vocabulary):
                raise UserError(f"model.{option}: the {side} is made of features, not of symbols with vectors")
            ids = {symbol: index for index, symbol in enumerate(vocabulary.symbols)}
            file = str(resolve_data_path(f"model.{option}", config["model"][option]))
            load_vectors(model.get_submodule(module_name), ids, file)  # type: ignore[arg-type]
    return model


def new_model(resolved: ResolvedConfig, data: SequenceData) -> torch.nn.Module:
    """Build the model for a task's vocabularies, with its fast paths unless ``accel=off``."""
    model = resolved.build(data_sizes(data))
    set_vocabulary_map = getattr(getattr(model, "output", None), "set_vocabulary_map", None)
    if set_vocabulary_map is not None and isinstance(data.source, Vocabulary) and isinstance(data.target, Vocabulary):
        set_vocabulary_map(data.source.ids_in(data.target))
    if resolved.config.get("accel", "auto") == "auto":
        accel.enable(model)
    return model


def data_sizes(data: SequenceData) -> DataSizes:
    """The sizes of the data that a model is built for."""
    sizes = {"tags": len(data.tags)}
    for side, encoding in (("source", data.source), ("target", data.target)):
        sizes[f"{side}_symbols"] = len(encoding) if isinstance(encoding, Vocabulary) else 0
        sizes[f"{side}_features"] = encoding.width if isinstance(encoding, FeatureScaler) else 0
    return DataSizes(**sizes)

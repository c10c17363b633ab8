"""Builds a run's model for the vocabularies of its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from attnx import accel, registry
from attnx.data.features import Features
from attnx.data.paths import resolve_data_path
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.nn.pretrained import load_vectors
from attnx.tasks.protocols import SequenceData

Config = Mapping[str, Any]


def build_model(config: Config, data: SequenceData) -> torch.nn.Module:
    """Build the model for a task's vocabularies, with pretrained vectors if files are named."""
    model = new_model(config, data)
    places = {"source": "source.embedding", "target": "embedding"}
    for side, place in places.items():
        knob, vocabulary = f"{side}_vectors", getattr(data, side)
        if config["model"].get(knob):
            if not isinstance(vocabulary, Vocabulary):
                raise UserError(f"model.{knob}: the {side} is made of features, which have no vectors of their own")
            ids = {symbol: number for number, symbol in enumerate(vocabulary.symbols)}
            file = str(resolve_data_path(f"model.{knob}", config["model"][knob]))
            load_vectors(model.get_submodule(place), ids, file)  # type: ignore[arg-type]
    return model


def new_model(config: Config, data: SequenceData) -> torch.nn.Module:
    """Build the model for a task's vocabularies, with its fast paths unless ``accel=off``.

    Raises:
        UserError: something is to be told the rows' tags, and the data have none; or nothing of the source can be
            copied.
    """
    sizes = {"tags": len(data.tags)}
    for side, measured in (("source", data.source), ("target", data.target)):
        sizes[f"{side}_symbols"] = len(measured) if isinstance(measured, Vocabulary) else 0
        sizes[f"{side}_features"] = measured.width if isinstance(measured, Features) else 0
    model = registry.build("model", config["model"], config=config, **sizes)
    assert isinstance(model, torch.nn.Module)
    match = getattr(getattr(model, "output", None), "set_vocabulary_map", None)
    if match is not None and isinstance(data.source, Vocabulary) and isinstance(data.target, Vocabulary):
        match(data.source.ids_in(data.target))
    if config.get("accel", "auto") == "auto":
        accel.enable(model)
    return model

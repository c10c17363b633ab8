"""Builds a run's model, and opens a run, or several as an ensemble: model, weights, vocabularies and task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnx import accel, registry
from attnx.data.features import FeatureScaler
from attnx.data.output_limit import OutputLimit
from attnx.data.paths import resolve_data_path
from attnx.data.splits import Splits
from attnx.data.vocabulary import Vocabulary, load_symbols
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.files.process_state import isolated_state
from attnx.inference.checkpoint import load_weights
from attnx.inference.trained_run import TrainedRun as TrainedRun
from attnx.inference.validate import checkpoint_files, read_complete_run, refuse_unlike, unlike_message
from attnx.models.resolve import DataSizes, ResolvedConfig, resolve_model
from attnx.nn.pretrained import load_vectors
from attnx.registry import PartSpec
from attnx.runs import layout
from attnx.runs.plugin_copies import changed_code_message
from attnx.tasks.contract import SequenceData


def build_model(resolved: ResolvedConfig, data: SequenceData) -> torch.nn.Module:
    """Build the model for a task's vocabularies, with pretrained vectors from ``model.source_vectors`` and the like.

    Raises:
        UserError: as :func:`new_model`; or a file of vectors is missing, malformed, or named for features.
    """
    model, config = new_model(resolved, data), resolved.config
    for side, module_name in (("source", "source_encoder.embedding"), ("target", "embedding")):
        option, vocabulary = f"{side}_vectors", getattr(data, side)
        if config["model"].get(option):
            if not isinstance(vocabulary, Vocabulary):
                raise UserError(f"model.{option}: the {side} is made of features, not of symbols with vectors")
            ids = {symbol: index for index, symbol in enumerate(vocabulary.symbols)}
            file = resolve_data_path(f"model.{option}", config["model"][option])
            load_vectors(model.get_submodule(module_name), ids, file)  # type: ignore[arg-type]
    return model


def new_model(resolved: ResolvedConfig, data: SequenceData) -> torch.nn.Module:
    """Build the model for a task's vocabularies, with its fast paths unless ``accel=off``.

    Raises:
        UserError: a part needs tags, which the data do not have; or no source symbol can be copied.
    """
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


def open_run(folder: str | Path, checkpoint: str = "best", decoding: PartSpec | None = None) -> TrainedRun:
    """Open a run; print a line if the code of its plug-ins has changed.

    Args:
        folder: the run folder.
        checkpoint: ``best``, ``last``, or ``average``, the mean of the saved best ones.
        decoding: a decoding instead of the run's, ``"beam"`` or ``("beam", {"beam_size": 5})``.

    Raises:
        UserError: not a run folder, a newer format, half-written, a missing plug-in, a missing or hostile checkpoint,
            weights that do not fit, or no such decoding.
    """
    registry.forget_changed()
    if changed := changed_code_message(read_complete_run(folder, checkpoint)):
        print(f"attnx: {printable(changed)}", file=sys.stderr)
    return load_run(folder, checkpoint, decoding)


@isolated_state()
def load_run(folder: str | Path, checkpoint: str = "best", decoding: PartSpec | None = None) -> TrainedRun:
    """Open a run as :func:`open_run` does, with the plug-ins that are imported already."""
    path = Path(folder)
    vocabulary, config = path / layout.VOCABULARY, {**read_complete_run(path, checkpoint).config, "folder": str(path)}
    if decoding is not None:
        config["decoding"] = choose_decoding(config["decoding"], decoding)
    source, target = (
        FeatureScaler.load(vocabulary / features)
        if (vocabulary / features).is_file()
        else Vocabulary.load(vocabulary / symbols)
        for symbols, features in layout.SIDES.values()
    )
    tags = load_symbols(vocabulary / layout.TAGS) if (vocabulary / layout.TAGS).is_file() else ()
    limit = OutputLimit.load(vocabulary / layout.OUTPUT_LIMIT)
    data = SequenceData(Splits([], [], []), source, target, tags, output_limit=limit)
    resolved = resolve_model(config)
    model = new_model(resolved, data)
    load_weights(model, checkpoint_files(path, checkpoint))
    task = registry.build("task", config["task"])
    task.restore(vocabulary)
    search = registry.build("decoding", config["decoding"])
    return TrainedRun(model.eval(), task, data, search, path, config, resolved.sites)


def open_ensemble(
    folders: Sequence[str | Path], checkpoint: str = "best", decoding: PartSpec | None = None
) -> TrainedRun:
    """Open several runs as an ensemble, which predicts with the mean of their probabilities (or numbers).

    Args:
        folders: the run folders; they need the same vocabularies.
        checkpoint: of each, as in :func:`open_run`.
        decoding: a decoding instead of the first run's.

    Raises:
        UserError: as :func:`open_run`; there is no folder, or runs differ in task, target or vocabularies.
    """
    if not folders:
        raise UserError("name at least one run folder")
    if not isinstance(folders, Sequence) or isinstance(folders, str):
        raise UserError(f"{folders!r}: give a list of run folders, or use open_run")
    complete = [read_complete_run(folder, checkpoint) for folder in folders]
    refuse_unlike(complete)
    runs = [open_run(folder, checkpoint, decoding) for folder in folders]
    first = runs[0]
    if len(runs) == 1:
        return first
    for read, run in zip(complete, runs, strict=True):
        if run.model.target != first.model.target:
            raise UserError(unlike_message(complete[0], read, "target"))
    from attnx.decoding.ensemble import Ensemble

    model: Any = Ensemble([run.model for run in runs])
    return replace(first, model=model)


def init_weights(model: nn.Module, resolved: ResolvedConfig, data: SequenceData, folder: str) -> str:
    """Copy the best weights of the run in ``folder`` into a model where their names and shapes agree.

    Weights of symbols, such as embeddings, are copied only if both runs have the same symbols in the same order, those
    of the columns of matrices likewise. The text says how many weights were copied, and names the others.

    Raises:
        UserError: the run cannot be opened, or none of its weights has a place in the model.
    """
    run = load_run(folder)
    weights, saved = model.state_dict(), run.model.state_dict()
    unequal = _unequal_weights(model, resolved, data, run.data)
    copied, left = {}, []
    for name, weight in weights.items():
        if name not in saved:
            left.append(f"{name} (new)")
        elif saved[name].shape != weight.shape:
            shapes = f"{_shape(saved[name])} there, {_shape(weight)} here"
            left.append(f"{name} ({shapes})")
        elif name in unequal:
            left.append(f"{name} (other {' and '.join(unequal[name])})")
        else:
            copied[name] = saved[name]
    left += [f"{name} (only there)" for name in saved if name not in weights]
    if not copied:
        raise UserError(
            f"init_from={folder}: none of its weights has a place in this model: {', '.join(left[:3])}, ..."
        )
    model.load_state_dict(copied, strict=False)
    return f"{len(copied)} of {len(weights)} from {folder}" + (f"; not {', '.join(left)}" if left else "")


def _unequal_weights(
    model: nn.Module, resolved: ResolvedConfig, data: SequenceData, other: SequenceData
) -> dict[str, list[str]]:
    """What the shape of each weight depends on and other data have otherwise: one more symbol changes the shape."""
    names: dict[str, list[str]] = {}
    sizes, own = data_sizes(data), model.state_dict()
    for size, count in sizes._asdict().items():
        side = size.split("_")[0]
        if not count or _names(getattr(data, side)) == _names(getattr(other, side)):
            continue
        with torch.random.fork_rng([]):
            larger = resolved.build(sizes._replace(**{size: count + 1}))
        for name, weight in larger.state_dict().items():
            if name in own and own[name].shape != weight.shape:
                names.setdefault(name, []).append(size.replace("_", " "))
    return names


def _names(side: Vocabulary | FeatureScaler | Sequence[str]) -> Sequence[str]:
    """The symbols of a side, or its columns; tags as they are."""
    if isinstance(side, Vocabulary):
        return side.symbols
    return side.columns if isinstance(side, FeatureScaler) else side


def _shape(weight: torch.Tensor) -> str:
    return "x".join(map(str, weight.shape))

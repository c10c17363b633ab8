"""Opens a run, or several as an ensemble: the model with its weights, the vocabularies and the task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.data.features import FeatureScaler
from attnx.data.output_limit import OutputLimit
from attnx.data.splits import Splits
from attnx.data.vocabulary import Vocabulary, load_symbols
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.inference.build_model import new_model
from attnx.inference.checkpoint import load_weights
from attnx.inference.trained_run import TrainedRun as TrainedRun
from attnx.inference.validate import checkpoint_files, read_complete_run, refuse_unlike
from attnx.models.resolve import resolve_model
from attnx.registry import PartSpec
from attnx.runs.layout import (
    OUTPUT_LIMIT,
    SOURCE_FEATURES,
    SOURCE_SYMBOLS,
    TAGS,
    TARGET_FEATURES,
    TARGET_SYMBOLS,
    VOCABULARY,
)
from attnx.runs.plugin_copies import changed_code_message
from attnx.tasks.contract import SequenceData


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


def load_run(folder: str | Path, checkpoint: str = "best", decoding: PartSpec | None = None) -> TrainedRun:
    """Open a run as :func:`open_run` does, with the plug-ins that are imported already."""
    path = Path(folder)
    config = {**read_complete_run(path, checkpoint).config, "folder": str(path)}
    if decoding is not None:
        config["decoding"] = choose_decoding(config["decoding"], decoding)
    source = _load_side(path / VOCABULARY, SOURCE_FEATURES, SOURCE_SYMBOLS)
    target = _load_side(path / VOCABULARY, TARGET_FEATURES, TARGET_SYMBOLS)
    tags = path / VOCABULARY / TAGS
    known_tags = load_symbols(tags) if tags.is_file() else ()
    limit = OutputLimit.load(path / VOCABULARY / OUTPUT_LIMIT)
    data = SequenceData(Splits([], [], []), source, target, known_tags, output_limit=limit)
    resolved = resolve_model(config)
    model = new_model(resolved, data)
    load_weights(model, checkpoint_files(path, checkpoint))
    task = registry.build("task", config["task"])
    task.restore(path / VOCABULARY)
    decoding_part = registry.build("decoding", config["decoding"])
    return TrainedRun(model.eval(), task, data, decoding_part, path, config, resolved.sites)


def open_ensemble(
    folders: Sequence[str | Path], checkpoint: str = "best", decoding: PartSpec | None = None
) -> TrainedRun:
    """Open several runs as an ensemble, which predicts with the mean of their probabilities (or numbers).

    Args:
        folders: the run folders; they need the same vocabularies.
        checkpoint: of each, as in :func:`open_run`.
        decoding: a decoding instead of the first run's.

    Raises:
        UserError: as :func:`open_run`; there is no folder, or runs differ in task or vocabularies.
    """
    if not folders:
        raise UserError("name at least one run folder")
    if not isinstance(folders, Sequence) or isinstance(folders, str):
        raise UserError(f"{folders!r}: give a list of run folders, or use open_run")
    refuse_unlike([read_complete_run(folder, checkpoint) for folder in folders])
    runs = [open_run(folder, checkpoint, decoding) for folder in folders]
    first = runs[0]
    if len(runs) == 1:
        return first
    from attnx.decoding.ensemble import Ensemble

    model: Any = Ensemble([run.model for run in runs])
    return replace(first, model=model)


def _load_side(folder: Path, features: str, symbols: str) -> Vocabulary | FeatureScaler:
    """The features of a side if their file exists, else its vocabulary."""
    return FeatureScaler.load(folder / features) if (folder / features).is_file() else Vocabulary.load(folder / symbols)

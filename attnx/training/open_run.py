"""Reopens a run folder: the model with its best weights, the vocabularies and the task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnx import registry
from attnx.data.batches import collate
from attnx.data.features import Features, Matrix
from attnx.data.pairs import Pair
from attnx.data.split import Splits
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.read_run import read_run
from attnx.run_format import CHECKPOINTS, SOURCE_FEATURES, TARGET_FEATURES, VOCABULARY
from attnx.tasks.protocols import SequenceData
from attnx.training.experiment import Experiment, Prediction, Settings
from attnx.training.train import load_weights, new_model


@dataclass
class OpenRun:
    """A finished or interrupted run, ready to be used.

    Attributes:
        folder: where it lies.
        config: what it was composed of.
        experiment: holds ``model``, ``task`` and ``data`` (the vocabularies; its pairs are not read again).
    """

    folder: Path
    config: dict[str, Any]
    experiment: Experiment

    @property
    def model(self) -> torch.nn.Module:
        """The model with its best weights, in evaluation mode."""
        return self.experiment.model

    @property
    def source(self) -> Vocabulary | Features:
        """The source vocabulary, or how features are scaled."""
        return self.experiment.data.source

    @property
    def target(self) -> Vocabulary | Features:
        """The target vocabulary, or how features are scaled."""
        return self.experiment.data.target

    def predict(self, sources: Sequence[str | Matrix], tag: str = "", need_weights: bool = False) -> list[Prediction]:
        """Decode sources.

        Args:
            sources: each a text, as the task's data hold it, or a matrix of features (s, f) in the data's own units.
            tag: the language of all of them, where the run knows several.
            need_weights: also return the attention weights.

        Raises:
            UserError: a source is empty or of the wrong kind, or the tag is not one that the run knows.
        """
        tags = self.experiment.data.tags
        if tag not in (tags or ("",)):
            raise UserError(f"the tag {tag!r} is not one that this run knows: {', '.join(tags) or 'it has none'}")
        if not all(len(source) for source in sources):
            raise UserError("cannot predict from an empty source")
        if not sources:
            return []
        pairs = [self._pair(source, tag) for source in sources]
        rows = self.experiment.data.judged_rows(pairs)
        batch = collate([rows[number] for number in range(len(pairs))])
        return self.experiment.decode(pairs, batch, need_weights)

    def _pair(self, source: str | Matrix, tag: str) -> Pair:
        width = self.source.width if isinstance(self.source, Features) else None
        if isinstance(source, str):
            if width is not None:
                raise UserError(f"this run reads matrices of {width} features a step, not text")
            return Pair(self.experiment.task.symbols(source, tag), ((),), tag, target=self._nothing)
        if width is None or source.ndim != 2 or source.shape[1] != width:
            raise UserError(f"this run reads {self.source}, not a matrix of shape {source.shape}")
        if not np.isfinite(source).all():
            raise UserError("the matrix holds NaN or infinity; fill them in before")
        return Pair(tuple(map(str, range(len(source)))), ((),), tag, features=source, target=self._nothing)

    @property
    def _nothing(self) -> Matrix | None:
        """The target of what is only asked for, where targets are matrices."""
        return np.zeros((1, self.target.width), np.float32) if isinstance(self.target, Features) else None


def open_run(folder: str | Path, checkpoint: str = "best") -> OpenRun:
    """Reopen a run.

    Args:
        folder: the run folder.
        checkpoint: ``best`` or ``last``.

    Raises:
        UserError: not a run folder, a newer format, a missing checkpoint, or weights that do not fit.
    """
    path = Path(folder)
    config = {**registry.filled(read_run(path).config), "folder": str(path)}
    source = _side(path / VOCABULARY, SOURCE_FEATURES, "source.json")
    target = _side(path / VOCABULARY, TARGET_FEATURES, "target.json")
    data = SequenceData(Splits([], [], []), source, target, _tags(path / VOCABULARY / "tags.json"))
    model = new_model(config, data)
    weights = path / CHECKPOINTS / f"{checkpoint}.ckpt"
    if not weights.is_file():
        raise UserError(f"{weights}: no such checkpoint")
    try:
        load_weights(model, weights)
    except RuntimeError as error:
        raise UserError(
            f"{weights}: does not fit the run's configuration ({str(error).splitlines()[1].strip()})"
        ) from None
    settings = Settings(
        optimiser=torch.optim.SGD, lr_schedule=torch.optim.lr_scheduler.ConstantLR, total_steps=0, sampling=0
    )
    task, search = registry.build("task", config["task"]), registry.build("search", config["search"])
    task.restore(path / VOCABULARY)
    return OpenRun(path, config, Experiment(model, task, data, search, settings).eval())


def _side(folder: Path, features: str, symbols: str) -> Vocabulary | Features:
    """What a side is made of: features if their file is there."""
    return Features.load(folder / features) if (folder / features).is_file() else Vocabulary.load(folder / symbols)


def _tags(file: Path) -> tuple[str, ...]:
    """The run's tags; a run without any has no such file."""
    return tuple(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else ()

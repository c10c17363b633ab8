"""Reopens a run folder: the model with its best weights, the vocabularies and the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from attnx import registry
from attnx.data.batches import collate
from attnx.data.pairs import Pair
from attnx.data.split import Splits
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.run_format import CHECKPOINTS, CONFIG, FORMAT, RUN, VOCABULARY
from attnx.tasks.sequences import SequenceData
from attnx.training.experiment import Experiment, Prediction, Settings
from attnx.training.train import load_weights


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
    def source(self) -> Vocabulary:
        """The source vocabulary."""
        return self.experiment.data.source

    @property
    def target(self) -> Vocabulary:
        """The target vocabulary."""
        return self.experiment.data.target

    def predict(self, sources: Sequence[str], need_weights: bool = False) -> list[Prediction]:
        """Decode sources, each a string of symbols.

        Raises:
            UserError: a source is empty.
        """
        if not all(sources):
            raise UserError("cannot predict from an empty source")
        if not sources:
            return []
        pairs = [Pair(tuple(source), ((),)) for source in sources]
        rows = self.experiment.data.rows(pairs)
        batch = collate([rows[number] for number in range(len(pairs))])
        return self.experiment.decode(pairs, batch, need_weights)


def open_run(folder: str | Path, checkpoint: str = "best") -> OpenRun:
    """Reopen a run.

    Args:
        folder: the run folder.
        checkpoint: ``best`` or ``last``.

    Raises:
        UserError: not a run folder, a newer format, a missing checkpoint, or weights that do not fit.
    """
    path = Path(folder)
    config = read_config(path)
    vocabularies = [Vocabulary.load(path / VOCABULARY / f"{side}.json") for side in ("source", "target")]
    data = SequenceData(Splits([], [], []), *vocabularies)
    model = registry.build(
        "model", config["model"], config=config, source_symbols=len(data.source), target_symbols=len(data.target)
    )
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
    return OpenRun(path, config, Experiment(model, task, data, search, settings).eval())


def read_config(folder: Path) -> dict[str, Any]:
    """Read a run folder's configuration.

    Raises:
        UserError: not a run folder, or written by a newer attnx.
    """
    import json

    if not (folder / RUN).is_file():
        raise UserError(f"{folder}: not a run folder (it has no {RUN})")
    found = json.loads((folder / RUN).read_text(encoding="utf-8")).get("format")
    if not isinstance(found, int) or found > FORMAT:
        raise UserError(f"{folder}: format {found} is newer than this attnx, which reads up to {FORMAT}; upgrade attnx")
    config = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
    return {**config, "folder": str(folder)}

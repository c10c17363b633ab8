"""Reopens a run folder, or several that answer together: the model with its best weights, vocabularies and task."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attnx import registry
from attnx.data.features import Features
from attnx.data.split import Splits
from attnx.data.tokenizers.counted import load_symbols
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.select import choose_search
from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.inference.build_model import new_model
from attnx.inference.checkpoint_average import averaged
from attnx.inference.trained_run import OpenRun as OpenRun
from attnx.inference.validate import read_whole_run, refuse_unlike, weights_of
from attnx.registry import PartSpec
from attnx.runs.layout import SOURCE_FEATURES, SOURCE_SYMBOLS, TAGS, TARGET_FEATURES, TARGET_SYMBOLS, VOCABULARY
from attnx.runs.plugin_copies import other_code
from attnx.tasks.protocols import SequenceData
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.lightning_module import Settings, TrainingModule


def open_run(folder: str | Path, checkpoint: str = "best", search: PartSpec | None = None) -> OpenRun:
    """Reopen a run; if the code of its plug-ins is another by now, that is told in a line.

    Args:
        folder: the run folder.
        checkpoint: ``best``, ``last``, or ``average``, the mean of the best that were kept.
        search: another search than the run's own, ``"beam"`` or ``("beam", {"beam_size": 5})``.

    Raises:
        UserError: not a run folder, a newer format, half-written, a missing plug-in, a missing or hostile checkpoint,
            weights that do not fit, or no such search.
    """
    registry.forget_changed()
    if changed := other_code(read_whole_run(folder, checkpoint)):
        print(f"attnx: {printable(changed)}", file=sys.stderr)
    return reopened(folder, checkpoint, search)


def reopened(folder: str | Path, checkpoint: str = "best", search: PartSpec | None = None) -> OpenRun:
    """A run with the parts that are imported already, whatever their files hold by now; else as :func:`open_run`."""
    path = Path(folder)
    config = {**read_whole_run(path, checkpoint).config, "folder": str(path)}
    if search is not None:
        config["decoding"] = choose_search(config["decoding"], search)
    source = _side(path / VOCABULARY, SOURCE_FEATURES, SOURCE_SYMBOLS)
    target = _side(path / VOCABULARY, TARGET_FEATURES, TARGET_SYMBOLS)
    data = SequenceData(Splits([], [], []), source, target, _tags(path / VOCABULARY / TAGS))
    model = new_model(config, data)
    _load(model, weights_of(path, checkpoint))
    task = registry.build("task", config["task"])
    task.restore(path / VOCABULARY)
    return OpenRun(path, config, _experiment(model, task, data, config["decoding"]))


def open_ensemble(folders: Sequence[str | Path], checkpoint: str = "best", search: PartSpec | None = None) -> OpenRun:
    """Reopen several runs that answer together, by the mean of their probabilities (or numbers).

    Args:
        folders: the run folders; they need the same vocabularies.
        checkpoint: as in :func:`open_run`, of each.
        search: another search than that of the first.

    Raises:
        UserError: as :func:`open_run`; there is no folder, or runs differ in task or vocabularies.
    """
    if not folders:
        raise UserError("name at least one run folder")
    if not isinstance(folders, Sequence) or isinstance(folders, str):
        raise UserError(f"{folders!r}: give a list of run folders, or use open_run")
    refuse_unlike([read_whole_run(folder, checkpoint) for folder in folders])
    runs = [open_run(folder, checkpoint, search) for folder in folders]
    first = runs[0]
    if len(runs) == 1:
        return first
    from attnx.decoding.ensemble import Ensemble

    model: Any = Ensemble([run.model for run in runs])
    old = first.experiment
    return replace(first, experiment=_experiment(model, old.task, old.data, first.config["decoding"]))


def _experiment(model: torch.nn.Module, task: Any, data: SequenceData, search: PartSpec) -> TrainingModule:
    settings = Settings(torch.optim.SGD, torch.optim.lr_scheduler.ConstantLR, StepPlan([Revision(0, 0, 1)]), sampling=0)
    return TrainingModule(model, task, data, registry.build("decoding", search), settings).eval()


def _load(model: torch.nn.Module, files: Sequence[Path]) -> None:
    """Load the mean of checkpoints' weights; what is no plain tensor or number in them is refused, not run."""
    for file in files:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what torch finds odd in a strange file is told below
                found = averaged([file])
        except pickle.UnpicklingError as error:
            raise UserError(
                f"{file}: holds more than plain tensors and numbers, or is broken; it was not opened, and no code in "
                "it ran"
            ) from error
        except Exception as error:  # whatever torch makes of a file that is none of its own
            said = (str(error).splitlines() or [""])[0].strip()
            raise UserError(f"{file}: is no whole checkpoint ({said or type(error).__name__})") from error
        _refuse_misfit(model, found, file)
    model.load_state_dict(found if len(files) == 1 else averaged(files))


def _refuse_misfit(model: torch.nn.Module, found: Mapping[str, torch.Tensor], file: Path) -> None:
    """See that a checkpoint's weights are those of the model.

    Raises:
        UserError: they are not.
    """
    mine = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    theirs = {name: tuple(weight.shape) for name, weight in found.items()}
    for name in [*mine, *theirs]:
        if mine.get(name) != theirs.get(name):
            there, here = (f"shape {held[name]}" if name in held else "nothing" for held in (theirs, mine))
            raise UserError(f"{file}: does not fit the run's configuration: {name} has {there} there and {here} here")


def _side(folder: Path, features: str, symbols: str) -> Vocabulary | Features:
    """What a side is made of: features if their file is there."""
    return Features.load(folder / features) if (folder / features).is_file() else Vocabulary.load(folder / symbols)


def _tags(file: Path) -> tuple[str, ...]:
    """The run's tags; a run without any has no such file."""
    return load_symbols(file) if file.is_file() else ()

"""Exports a trained model as a folder that runs without attnx, and compares its outputs with the run's."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.export.agreement import Agreement, compare_outputs
from attnx.export.formats import save_onnx, save_torch
from attnx.export.programs import Program, make_programs
from attnx.export.text_rules import search_rules, text_rules
from attnx.files.atomic_files import atomic_folder, write_bytes, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_bytes
from attnx.inference.load import open_run
from attnx.inference.trained_run import TrainedRun
from attnx.models.seq2seq.model import Seq2seq
from attnx.registry.optional_deps import require_package
from attnx.runs.layout import VOCABULARY

WRITERS: dict[str, tuple[str, Callable[[Program, Path], None]]] = {
    "onnx": ("onnx", save_onnx),
    "torch": ("pt", save_torch),
}
RUNNER = Path(__file__).with_name("runner")
RUNNER_FILES = ("run.py", "model.py", "text.py")
PROGRAMS = ("encode", "decode_step")
BEAM_SIZES = (1, 5)


def export(run: Path, kind: str, folder: Path, pairs: Sequence[Pair], checkpoint: str = "best") -> list[Agreement]:
    """Write both programs, the vocabularies and a runner; the folder appears only if its outputs agree.

    Args:
        run: the run folder.
        kind: ``onnx`` or ``torch``.
        folder: the new folder; it must not exist.
        pairs: examples for the comparison.
        checkpoint: ``best`` or ``last``.

    Raises:
        UserError: the run writes numbers, its model cannot be exported, a package is missing, or the files' outputs
            differ from the run's.
    """
    opened = open_run(run, checkpoint)
    if kind == "onnx":
        for module in ("onnx", "onnxruntime"):
            require_package(module, "export", "--format onnx")
    if not isinstance(opened.target, Vocabulary):
        raise UserError(f"{run}: writes rows of numbers; only models that write symbols can be exported")
    name = opened.config["model"]["name"]
    if not registry.describe("model", name).properties.get("can_export", True):
        raise UserError(f"{run}: model={name} cannot be exported; pointer, seq2seq and transformer can")
    with atomic_folder(folder) as partial:
        _write(partial, opened, kind)
        return [compare_outputs(opened, _load_runner(partial), pairs, beam_size) for beam_size in BEAM_SIZES]


def _write(folder: Path, run: TrainedRun, kind: str) -> None:
    ending, write = WRITERS[kind]
    model = cast("Seq2seq", copy.deepcopy(run.model)).requires_grad_(False)  # its fast paths will be disabled
    programs = dict(zip(PROGRAMS, make_programs(model, _source_maker(run), bool(run.tags)), strict=True))
    for name, program in programs.items():
        write(program, folder / f"{name}.{ending}")
    source, target = run.source, cast("Vocabulary", run.target)
    texts = text_rules(run.config["task"], source.columns if isinstance(source, FeatureScaler) else ())
    content = {
        "source": dataclasses.asdict(source) if isinstance(source, FeatureScaler) else source.symbols,
        "target": target.symbols,
        "tags": run.tags,
        "text": texts,
        "decoding": search_rules({**run.config["decoding"], **_length_limits(run)}),
        "is_continuation": run.task.is_continuation,
        "programs": {name: program.input_names for name, program in programs.items()},
    }
    write_json(folder / "model.json", content, indent=1)
    for name in RUNNER_FILES:
        shutil.copyfile(RUNNER / name, folder / name)
    for name in {rule["file"] for rule in texts.values() if "file" in rule}:
        write_bytes(folder / name, read_bytes(run.folder / VOCABULARY / name, MAX_LIST_BYTES))


def _length_limits(run: TrainedRun) -> dict[str, Any]:
    """The limits of the run's search, those of the training data where its options are unset."""
    names = ("max_length_ratio", "max_length_extra")
    return {name: getattr(run.decoding, name) for name in names if hasattr(run.decoding, name)}


def _source_maker(run: TrainedRun) -> Callable[[int, int], Tensor]:
    """A function that draws sources of a number of rows and steps."""
    generator = torch.Generator().manual_seed(0)
    source = run.source
    if isinstance(source, FeatureScaler):
        return lambda rows, steps: torch.randn(rows, steps, source.width, generator=generator)
    return lambda rows, steps: torch.randint(len(source), (rows, steps), generator=generator)


def _load_runner(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported_model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch prefers torch.export: see formats
        return module.Model(folder)

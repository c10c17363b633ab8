"""Writes a trained model as a folder that runs without attnx, and sees that it gives what the run gives."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.features import Features
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.export import onnx_file, torch_file
from attnx.export.agreement import Checked as Checked
from attnx.export.agreement import compared
from attnx.export.programs import Program, programs
from attnx.export.text_rules import search_rules, text_rules
from attnx.files.atomic_files import atomic_folder
from attnx.inference.load import open_run
from attnx.inference.trained_run import TrainedRun
from attnx.models.seq2seq.model import Seq2seq
from attnx.registry.optional_deps import require
from attnx.runs.layout import VOCABULARY

WRITERS: dict[str, tuple[str, Callable[[Program, Path], None]]] = {
    "onnx": ("onnx", onnx_file.write),
    "torch": ("pt", torch_file.write),
}
RUNNER = Path(__file__).with_name("runner")
RUNNER_FILES = ("run.py", "model.py", "text.py")
NAMES = ("reading", "stepping")
WIDTHS = (1, 5)


def export(run: Path, kind: str, folder: Path, pairs: Sequence[Pair], checkpoint: str = "best") -> list[Checked]:
    """Write both programs, vocabularies and a runner, whole and checked or not at all.

    Args:
        run: the run folder.
        kind: ``onnx`` or ``torch``.
        folder: where to; it must not be there.
        pairs: what to compare the files with the run on.
        checkpoint: ``best`` or ``last``.

    Raises:
        UserError: the run writes numbers, is of a model that has no step, a package is missing, or the files do not
            give what the run gives.
    """
    opened = open_run(run, checkpoint)
    if kind == "onnx":
        for module in ("onnx", "onnxruntime"):
            require(module, "export", "--format onnx")
    if not isinstance(opened.target, Vocabulary):
        raise UserError(f"{run}: writes rows of numbers; what is exported are models that write symbols")
    name = opened.config["model"]["name"]
    if not registry.describe("model", name).properties.get("exports", True):
        raise UserError(f"{run}: model={name} cannot be exported: a trace would hold one story's number of sentences")
    with atomic_folder(folder) as partial:
        _write(partial, opened, kind)
        return [compared(opened, _runner(partial), pairs, width) for width in WIDTHS]


def _write(folder: Path, run: TrainedRun, kind: str) -> None:
    ending, write = WRITERS[kind]
    model = cast("Seq2seq", copy.deepcopy(run.model)).requires_grad_(False)  # its fast paths will be disabled
    found = programs(model, _sources(run), bool(run.tags))
    for name, program in zip(NAMES, found, strict=True):
        write(program, folder / f"{name}.{ending}")
    source, target = run.source, cast("Vocabulary", run.target)
    told = {
        "source": dataclasses.asdict(source) if isinstance(source, Features) else source.symbols,
        "target": target.symbols,
        "tags": run.tags,
        "text": text_rules(run.config["task"], source.columns if isinstance(source, Features) else ()),
        "decoding": search_rules(run.config["decoding"]),
        "continues": bool(getattr(run.task, "continues", False)),
        "programs": {name: program.names for name, program in zip(NAMES, found, strict=True)},
    }
    (folder / "model.json").write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name in RUNNER_FILES:
        shutil.copyfile(RUNNER / name, folder / name)
    for file in (run.folder / VOCABULARY).glob("*.tokenizer"):
        shutil.copyfile(file, folder / file.name)


def _sources(run: TrainedRun) -> Callable[[int, int], Tensor]:
    """Any sources of so many rows and steps."""
    generator = torch.Generator().manual_seed(0)
    source = run.source
    if isinstance(source, Features):
        return lambda rows, steps: torch.randn(rows, steps, source.width, generator=generator)
    return lambda rows, steps: torch.randint(len(source), (rows, steps), generator=generator)


def _runner(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported_model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have its programs from torch.export: see torch_file
        return module.Model(folder)

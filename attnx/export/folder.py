"""Exports a trained model as a folder of files that run without attnx, and compares its outputs with the run's."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.greedy import Greedy
from attnx.errors import UserError
from attnx.export.agreement import Agreement, ExportedModel, compare_outputs
from attnx.export.formats import FORMATS
from attnx.export.programs import Programs, make_programs
from attnx.files.atomic_files import atomic_folder, write_bytes, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_bytes
from attnx.inference.load import open_run
from attnx.inference.trained_run import TrainedRun
from attnx.models.seq2seq.model import Seq2seq
from attnx.registry.dependencies import require_package
from attnx.runs.layout import VOCABULARY

EXAMPLE = Path(__file__).with_name("example.py")
BEAM_SIZES = (1, 5)


def export(run: Path, kind: str, folder: Path, pairs: Sequence[Pair], checkpoint: str = "best") -> list[Agreement]:
    """Write both programs and the vocabularies; the folder appears only if its outputs agree.

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
    if opened.task.has_step_labels:
        raise UserError(f"{run}: its task labels the steps of what it reads; only models that decode can be exported")
    models = [registry.describe("model", name) for name in registry.names("model")]
    possible = [model.name for model in models if model.declarations.get("can_export", True)]
    if (name := opened.config["model"]["name"]) not in possible:
        raise UserError(f"{run}: model={name} cannot be exported; {', '.join(possible)} can")
    model = cast("Seq2seq", copy.deepcopy(opened.model)).requires_grad_(False)  # its fast paths will be disabled
    programs = make_programs(model, _source_maker(opened), bool(opened.tags))
    with atomic_folder(folder) as partial:
        for name, program in programs._asdict().items():
            FORMATS[kind].save(program, partial / f"{name}.{FORMATS[kind].ending}")
        _write_vocabularies(partial, opened, programs)
        if kind == "onnx":
            shutil.copyfile(EXAMPLE, partial / EXAMPLE.name)
        files = ExportedModel(partial, FORMATS[kind], programs, model)
        exported = dataclasses.replace(opened, model=cast("nn.Module", files))
        return [compare_outputs(opened, exported, pairs, beam_size) for beam_size in BEAM_SIZES]


def _write_vocabularies(folder: Path, run: TrainedRun, programs: Programs) -> None:
    """``model.json``, which says what ids and inputs of the programs mean, and the tokenizers of the run."""
    source, target = run.source, cast("Vocabulary", run.target)
    greedy = cast("Greedy", run.with_decoding("greedy").decoding)
    content = {
        "source": dataclasses.asdict(source) if isinstance(source, FeatureScaler) else source.symbols,
        "target": target.symbols,
        "tags": run.tags,
        "is_continuation": run.task.is_continuation,
        "max_length_ratio": greedy.max_length_ratio,
        "max_length_extra": greedy.max_length_extra,
        "programs": {name: program.input_names for name, program in programs._asdict().items()},
    }
    write_json(folder / "model.json", content, indent=1)
    for file in (run.folder / VOCABULARY).glob("*.tokenizer"):
        write_bytes(folder / file.name, read_bytes(file, MAX_LIST_BYTES))


def _source_maker(run: TrainedRun) -> Callable[[int, int], Tensor]:
    """A function that draws sources of a number of rows and steps."""
    generator = torch.Generator().manual_seed(0)
    source = run.source
    if isinstance(source, FeatureScaler):
        return lambda rows, steps: torch.randn(rows, steps, source.width, generator=generator)
    return lambda rows, steps: torch.randint(len(source), (rows, steps), generator=generator)

"""Exports a trained model as a folder of files that run without attnx, and compares them with the run's model."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.data.batches import as_batch
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import EOS, Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.decoding.greedy import Greedy
from attnx.errors import UserError
from attnx.export.onnx import save_onnx
from attnx.export.programs import Programs, make_programs
from attnx.files.atomic_files import atomic_folder, write_bytes, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_bytes
from attnx.inference.load import open_run
from attnx.inference.trained_run import BATCH_SIZE, TrainedRun
from attnx.models.seq2seq.model import Seq2seq
from attnx.registry.dependencies import require_package
from attnx.runs.layout import VOCABULARY

EXAMPLE = Path(__file__).with_name("example.py")
# Largest difference of log-probabilities: float32 sums over some ten steps differ in their last digits.
TOLERANCE = 1e-4


def export(run: Path, folder: Path, pairs: Sequence[Pair], checkpoint: str = "best") -> Agreement:
    """Write both programs and the vocabularies into a new folder, which appears only if they agree on ``pairs``.

    Raises:
        UserError: the run writes numbers, its model cannot be exported, a package is missing, or the files differ from
            the run's model.
    """
    opened = open_run(run, checkpoint)
    for module in ("onnx", "onnxruntime"):
        require_package(module, "export", "attnx export")
    if not isinstance(opened.target, Vocabulary):
        raise UserError(f"{run}: writes rows of numbers; only models that write symbols can be exported")
    if opened.task.has_step_labels:
        raise UserError(f"{run}: its task labels the steps of what it reads; only models that decode can be exported")
    models = [registry.describe("model", name) for name in registry.names("model")]
    possible = [model.name for model in models if model.declarations.get("can_export", True)]
    if (name := opened.config["model"]["name"]) not in possible:
        raise UserError(f"{run}: model={name} cannot be exported; {', '.join(possible)} can")
    model = cast("Seq2seq", copy.deepcopy(opened.model)).requires_grad_(False)  # its fast paths will be disabled
    source, generator = opened.source, torch.Generator().manual_seed(0)

    def draw(rows: int, steps: int) -> Tensor:
        if isinstance(source, FeatureScaler):
            return torch.randn(rows, steps, source.width, generator=generator)
        return torch.randint(len(source), (rows, steps), generator=generator)

    programs = make_programs(model, draw, bool(opened.tags))
    with atomic_folder(folder) as partial:
        for name, program in programs._asdict().items():
            try:
                save_onnx(program, partial / f"{name}.onnx")
            except torch.onnx.errors.OnnxExporterError as error:
                raise UserError(f"{run}: cannot be exported: {str(error).splitlines()[0]}") from error
        _write_vocabularies(partial, opened, programs)
        shutil.copyfile(EXAMPLE, partial / EXAMPLE.name)
        return compare_steps(opened, partial, programs, pairs)


def _write_vocabularies(folder: Path, run: TrainedRun, programs: Programs) -> None:
    """``model.json``, which says what ids and inputs of the programs mean, and the tokenizers of the run."""
    source, target = run.source, cast("Vocabulary", run.target)
    greedy = cast("Greedy", run.with_decoding("greedy").decoding)
    content = {
        "source": dataclasses.asdict(source) if isinstance(source, FeatureScaler) else source.symbols,
        "target": target.symbols,
        "tags": run.tags,
        "tag_token": run.config["task"].get("tag_token", False),
        "is_continuation": run.task.is_continuation,
        "max_length_ratio": greedy.max_length_ratio,
        "max_length_extra": greedy.max_length_extra,
        "programs": {name: program.input_names for name, program in programs._asdict().items()},
    }
    write_json(folder / "model.json", content, indent=1)
    for file in (run.folder / VOCABULARY).glob("*.tokenizer"):
        write_bytes(folder / file.name, read_bytes(file, MAX_LIST_BYTES))


class Agreement(NamedTuple):
    """How many outputs were compared, and the largest difference of a log-probability at any of their steps."""

    outputs: int
    max_difference: float


@torch.no_grad()
def compare_steps(run: TrainedRun, folder: Path, programs: Programs, pairs: Sequence[Pair]) -> Agreement:
    """Compare the log-probabilities of all symbols by the files of a folder, at each step of the run's greedy outputs.

    The outputs are given to both step by step, so that a tie, which the last digits decide, leads neither elsewhere.

    Raises:
        UserError: log-probabilities differ.
    """
    from attnx.export.example import load  # it imports onnxruntime

    encode, decode_step = (load(folder, name, program.input_names) for name, program in programs._asdict().items())
    num_states = len(programs.decode_step.input_names) - 1
    model, target, difference = cast("StepModel", run.model), cast("Vocabulary", run.target), 0.0
    predictions = run.with_decoding("greedy").decode(pairs)
    for start in range(0, len(pairs), BATCH_SIZE):
        batch = as_batch(run.data.evaluation_dataset([*pairs[start : start + BATCH_SIZE]]))
        source, _ = model.target.prepare(batch.source)
        state = model.init_state(source, batch.source_mask, batch.tag)
        arrays = encode(source.numpy(), batch.source_mask.numpy(), batch.tag.numpy())[:num_states]
        written = [cast("list[str]", item.output) for item in predictions[start : start + BATCH_SIZE]]
        paths = [torch.tensor([*target.encode(output), EOS]) for output in written]
        lengths, symbols = torch.tensor(list(map(len, paths))), model.target.start_input(len(paths), source.device)
        for step, following in enumerate(nn.utils.rnn.pad_sequence(paths, padding_value=EOS)):
            expected, state, _ = model.decode_step(symbols, state)
            log_probabilities, *outputs = decode_step(symbols.numpy(), *arrays)
            rows, actual, arrays = step < lengths, torch.from_numpy(log_probabilities), outputs[-num_states:]
            difference = max(difference, _max_difference(expected[rows, EOS:], actual[rows, EOS:]))
            symbols = following
    if not difference <= TOLERANCE:
        raise UserError(
            f"{run.folder}: cannot be exported: a log-probability differs by {difference:.2g} from the run's (allowed: "
            f"{TOLERANCE:.2g}); a part of the model cannot be traced, or rounds too much"
        )
    return Agreement(len(pairs), difference)


def _max_difference(first: Tensor, second: Tensor) -> float:
    """The largest difference of log-probabilities; infinite if only one is possible."""
    is_possible = first.isfinite()
    if not is_possible.equal(second.isfinite()):
        return float("inf")
    return float((first[is_possible] - second[is_possible]).abs().max())

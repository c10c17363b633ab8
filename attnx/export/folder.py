"""Exports a trained model as a folder of files that run without attnx, and compares its outputs with the run's."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import AttentionOutput
from attnx.data.batches import Batch, as_batch
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import BOS, EOS, Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.decoding.greedy import Greedy
from attnx.errors import UserError
from attnx.export.formats import FORMATS, Format
from attnx.export.programs import Programs, make_programs
from attnx.files.atomic_files import atomic_folder, write_bytes, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_bytes
from attnx.inference.load import open_run
from attnx.inference.predictor import Prediction
from attnx.inference.trained_run import TrainedRun
from attnx.models.seq2seq.model import Seq2seq
from attnx.registry.dependencies import require_package
from attnx.runs.layout import VOCABULARY

EXAMPLE = Path(__file__).with_name("example.py")
BEAM_SIZES = (1, 5)
# Largest difference of log-probabilities: float32 sums over some ten steps differ in their last digits.
TOLERANCE = 1e-4
State = tuple[Tensor, ...]  # batch first each


def export(run: Path, kind: str, folder: Path, pairs: Sequence[Pair], checkpoint: str = "best") -> list[Agreement]:
    """Write both programs and the vocabularies into a new folder, which appears only if they agree on ``pairs``.

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


class Agreement(NamedTuple):
    """How many outputs were compared and are equal; others are equally probable.

    ``max_difference`` is the largest one of log-probabilities of the same output.
    """

    beam_size: int
    outputs: int
    equal_outputs: int
    max_difference: float


def compare_outputs(run: TrainedRun, exported: TrainedRun, pairs: Sequence[Pair], beam_size: int) -> Agreement:
    """Compare what a beam finds with the run's model and with the exported one; 1 is greedy.

    If two continuations differ only in the last digits of float32, either may be followed, and later steps need not be
    equally probable. So for a different output, the log-probabilities of all symbols are compared at each step of both
    outputs.

    Raises:
        UserError: log-probabilities differ; or a greedy search took a less probable symbol.
    """
    beam = ("beam", {"beam_size": beam_size})
    first, second = (decoder.with_decoding(beam).decode(pairs) for decoder in (run, exported))
    equal_outputs, max_difference = 0, 0.0
    for expected, actual in zip(first, second, strict=True):
        if expected.output == actual.output:
            equal_outputs += 1
            difference = abs(expected.log_probability - actual.log_probability)
        else:
            difference = _path_difference(run, exported, (expected, actual), beam_size)
        max_difference = max(max_difference, difference)
        if not difference <= TOLERANCE:
            raise UserError(
                f"{run.folder}: cannot be exported: with beam size {beam_size} the log-probability of an output "
                f"differs by {difference:.1g} from the run's (allowed: {TOLERANCE:.0e}); a part of the model "
                "cannot be traced"
            )
    return Agreement(beam_size, len(pairs), equal_outputs, max_difference)


@torch.inference_mode()
def _path_difference(run: TrainedRun, exported: TrainedRun, predictions: Sequence[Prediction], beam_size: int) -> float:
    """The largest difference of log-probabilities along both outputs; of a greedy search, or from a tie."""
    assert isinstance(run.target, Vocabulary)
    batch = as_batch(run.data.evaluation_dataset([predictions[0].pair]))
    paths = [[*run.target.encode(cast("list[str]", item.output)), EOS] for item in predictions]
    run_scores, file_scores = (
        [_path_scores(cast("StepModel", decoder.model), batch, path) for path in paths] for decoder in (run, exported)
    )
    difference = max(map(_max_difference, run_scores, file_scores))
    if beam_size == 1:
        first_difference = next(step for step, ids in enumerate(zip(*paths, strict=False)) if ids[0] != ids[1])
        scores = [run_scores[0][first_difference, path[first_difference]] for path in paths]
        difference = max(difference, abs(float(scores[0] - scores[1])))
    return difference


def _path_scores(model: StepModel, batch: Batch, path: list[int]) -> Tensor:
    """Log-probabilities (t, symbols) along a path of ids; -inf for ids before EOS, which are never written."""
    state, rows = model.init_state(batch.source, batch.source_mask, batch.tag), []
    for symbol in [BOS, *path[:-1]]:
        scores, state, _ = model.decode_step(torch.tensor([symbol]), state)
        rows.append(scores[0])
    table = torch.stack(rows)
    table[:, :EOS] = -torch.inf
    return table


def _max_difference(first: Tensor, second: Tensor) -> float:
    """The largest difference of log-probabilities (t, symbols); infinite if only one is possible."""
    is_possible = first.isfinite()
    if not is_possible.equal(second.isfinite()):
        return float("inf")
    return float((first[is_possible] - second[is_possible]).abs().max())


class ExportedModel:
    """Two files in a folder as a :class:`attnx.decoding.contracts.StepModel`, with the target of the model exported."""

    def __init__(self, folder: Path, file_format: Format, programs: Programs, model: StepModel) -> None:
        self.sources, self.target, self.is_distribution = model.sources, model.target, model.is_distribution
        self._has_tags = "tag" in programs.encode.input_names
        self._num_states = len(programs.decode_step.input_names) - 1
        self._encode, self._decode_step = (
            file_format.load(folder / f"{name}.{file_format.ending}", program.input_names)
            for name, program in programs._asdict().items()
        )

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> State:
        """(b, s) symbols or (b, s, f) features, (b, s) bool and (b,) tags -> the state before the first step."""
        tags = [tag] if self._has_tags and tag is not None else []
        return tuple(self._encode([source, source_mask, *tags])[: self._num_states])

    def decode_step(
        self, inputs: Tensor, state: State, need_weights: bool = False
    ) -> tuple[Tensor, State, AttentionOutput]:
        """Symbols (b,) -> log-probabilities (b, symbols), the next state, and the attention without its context."""
        log_probabilities, *outputs = self._decode_step([inputs, *state])
        weights = outputs[0] if len(outputs) > self._num_states else None
        attention = AttentionOutput(log_probabilities[:, None, :0], weights)
        return log_probabilities, tuple(outputs[-self._num_states :]), attention

    def select_rows(self, state: State, rows: Tensor) -> State:
        """The state of these rows."""
        return tuple(part[rows] for part in state)

    def reorder_beams(self, state: State, rows: Tensor) -> State:
        """As :meth:`select_rows`."""
        return self.select_rows(state, rows)

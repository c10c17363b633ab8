"""The exported programs as a model, compared with the run: equal outputs, or equally probable ones after a tie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.data.batches import Batch, as_batch
from attnx.data.examples import Pair
from attnx.data.vocabulary import BOS, EOS, Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.errors import UserError
from attnx.export.formats import Format
from attnx.export.programs import Programs
from attnx.inference.predictor import Prediction
from attnx.inference.trained_run import TrainedRun

# Largest difference of log-probabilities: float32 sums over some ten steps differ in their last digits.
TOLERANCE = 1e-4
State = tuple[Tensor, ...]  # batch first each


class Agreement(NamedTuple):
    """Result of a comparison.

    Attributes:
        beam_size: of the search.
        outputs: number of compared outputs.
        equal_outputs: number of equal outputs; others are equally probable.
        max_difference: largest difference of log-probabilities of the same output.
    """

    beam_size: int
    outputs: int
    equal_outputs: int
    max_difference: float


def compare_outputs(run: TrainedRun, exported: TrainedRun, pairs: Sequence[Pair], beam_size: int) -> Agreement:
    """Compare what a beam finds with the run's model and with the exported one.

    If two continuations differ only in the last digits of float32, either may be followed, and later steps need not be
    equally probable. So for a different output, the log-probabilities of all symbols are compared at each step of both
    outputs.

    Args:
        run: the run.
        exported: the run with an :class:`attnx.export.agreement.ExportedModel` as its model.
        pairs: what to decode.
        beam_size: of the search; 1 is greedy.

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
    """Two files as a :class:`attnx.decoding.contracts.StepModel`.

    Args:
        folder: where the files are.
        file_format: of the files.
        programs: what was saved there.
        model: what was exported.
    """

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

"""Comparison of exported files with their run: equal outputs, or equally probable ones after a tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from attnx.data.batches import Batch, as_batch
from attnx.data.examples import Pair
from attnx.data.special_tokens import BOS, EOS
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.errors import UserError
from attnx.inference.predictor import Prediction
from attnx.inference.trained_run import TrainedRun

# Largest difference of log-probabilities: float32 sums over some ten steps differ in their last digits.
TOLERANCE = 1e-4


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
        exported: the run with an :class:`attnx.export.exported_model.ExportedModel` as its model.
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

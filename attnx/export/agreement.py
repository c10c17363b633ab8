"""Comparison of exported files with their run: equal outputs, or equally probable ones after a tie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch

from attnx.data.batches import as_batch
from attnx.data.examples import Pair
from attnx.data.special_tokens import BOS, EOS
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.inference.trained_run import TrainedRun

# Largest difference of log-probabilities: float32 sums over some ten steps differ in their last digits.
TOLERANCE = 1e-4
Steps = npt.NDArray[np.floating[Any]]


class Agreement(NamedTuple):
    """Result of a comparison.

    Attributes:
        outputs: number of compared outputs.
        equal_outputs: number of equal outputs; others are equally probable.
        max_difference: largest difference of log-probabilities of the same output.
    """

    beam_size: int
    outputs: int
    equal_outputs: int
    max_difference: float


def compare_outputs(run: TrainedRun, runner: Any, pairs: Sequence[Pair], beam_size: int) -> Agreement:
    """Compare the outputs of the exported files' runner with those of the run.

    If two continuations differ only in the last digits of float32, either may be followed, and later steps need not be
    equally probable. So for a different output, the log-probabilities of all symbols are compared at each step of both
    outputs.

    Args:
        run: the run.
        runner: ``Model`` of the exported folder's ``model.py``.
        pairs: what to decode.
        beam_size: of the search.

    Raises:
        UserError: log-probabilities differ; or a greedy search took a less probable symbol.
    """
    search = choose_decoding(run.config["decoding"], "greedy")
    limits = {name: search[name] for name in ("max_length_ratio", "max_length_extra")}
    beam = {**limits, "beam_size": beam_size, "min_length": 0, "no_repeat_ngram_size": 0}
    predictions = run.with_decoding(("beam", beam)).decode(pairs)
    equal_outputs, max_difference = 0, 0.0
    for pair, prediction in zip(pairs, predictions, strict=True):
        output, log_probability = runner(runner_source(pair), beam_size, pair.tag)
        if output == list(prediction.output):
            equal_outputs += 1
            difference = abs(prediction.log_probability - log_probability)
        else:
            difference = _path_difference(run, runner, pair, (list(prediction.output), output), beam_size)
        max_difference = max(max_difference, difference)
        if not difference <= TOLERANCE:
            raise UserError(
                f"{run.folder}: cannot be exported: with beam size {beam_size} the log-probability of an output "
                f"differs by {difference:.1g} from the run's (allowed: {TOLERANCE:.0e}); a part of the model "
                "cannot be traced"
            )
    return Agreement(beam_size, len(pairs), equal_outputs, max_difference)


def runner_source(pair: Pair) -> Any:
    """A source as the runner reads it."""
    return list(pair.source) if pair.features is None else np.asarray(pair.features)


@torch.inference_mode()
def _path_difference(run: TrainedRun, runner: Any, pair: Pair, outputs: Sequence[list[str]], beam_size: int) -> float:
    """The largest difference of log-probabilities along both outputs; of a greedy search, or from a tie."""
    assert isinstance(run.target, Vocabulary)
    batch, model = as_batch(run.data.evaluation_dataset([pair])), cast("Any", run.model)
    paths = [[*run.target.encode(output), EOS] for output in outputs]
    run_scores, file_scores = [], []
    for path in paths:
        state = model.init_state(batch.source, batch.source_mask, batch.tag)
        run_scores.append(
            _path_scores(path, state, lambda symbol, state: model.decode_step(torch.tensor([symbol]), state)[:2])
        )
        state = runner.begin(runner_source(pair), pair.tag)
        file_scores.append(_path_scores(path, state, lambda symbol, state: runner.step([symbol], state)[::2]))
    difference = max(map(_max_difference, run_scores, file_scores))
    if beam_size == 1:
        first_difference = next(step for step, ids in enumerate(zip(*paths, strict=False)) if ids[0] != ids[1])
        scores = [run_scores[0][first_difference, path[first_difference]] for path in paths]
        difference = max(difference, abs(float(scores[0] - scores[1])))
    return difference


def _path_scores(path: list[int], state: Any, take_step: Callable[[int, Any], tuple[Any, Any]]) -> Steps:
    """Log-probabilities (t, symbols) along a path of ids; -inf for ids before EOS, which are never written."""
    rows = []
    for symbol in [BOS, *path[:-1]]:
        scores, state = take_step(symbol, state)
        rows.append(np.asarray(scores[0]))
    table = np.stack(rows)
    table[:, :EOS] = -np.inf
    return table


def _max_difference(first: Steps, second: Steps) -> float:
    """The largest difference of log-probabilities (t, symbols); infinite if only one is possible."""
    is_possible = np.isfinite(first)
    if (is_possible != np.isfinite(second)).any():
        return float("inf")
    return float(np.abs(first[is_possible] - second[is_possible]).max())

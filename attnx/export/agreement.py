"""Whether exported files give what the run gives: the same outputs, or as likely ones where a tie was broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from attnx.data.examples import Pair
from attnx.data.special_tokens import BOS, EOS
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.inference.trained_run import TrainedRun

# How far a log-probability may lie from the run's own: float32 sums over some ten steps differ in their last digits.
TOLERANCE = 1e-4
Steps = npt.NDArray[np.floating[Any]]


class Checked(NamedTuple):
    """What was compared: by this beam so many outputs, of which so many are the same; others are as likely.

    Attributes:
        width: of the beam.
        outputs: how many were compared.
        same: how many of them are the run's own.
        farthest: how far a log-probability lay from the run's own, of the same output, at most.
    """

    width: int
    outputs: int
    same: int
    farthest: float


def compared(run: TrainedRun, runner: Any, pairs: Sequence[Pair], width: int) -> Checked:
    """Compare what the files' runner finds with what the run finds.

    Where two continuations are as likely but for the last digits of float32, either may be followed, and what comes
    after them need not be as likely at all. So of an output that is another one it is asked how likely files and run
    hold all that can come, at each of its steps and of those of the run's own output.

    Args:
        run: the run.
        runner: ``Model`` of the exported folder's ``run.py``.
        pairs: what to decode.
        width: of the beam.

    Raises:
        UserError: a log-probability is another one; or a greedy search took what is not as likely.
    """
    rules = {name: run.config["decoding"][name] for name in ("max_length_ratio", "max_length_extra")}
    ours = run.with_search(("beam", {**rules, "beam_size": width, "min_length": 0, "no_repeat_ngram_size": 0})).decode(
        pairs
    )
    same, farthest = 0, 0.0
    for pair, mine in zip(pairs, ours, strict=True):
        output, told = runner(given(pair), width, pair.tag)
        if output == list(mine.output):
            same, far = same + 1, abs(mine.log_probability - told)
        else:
            far = _apart(run, runner, pair, (list(mine.output), output), width)
        farthest = max(farthest, far)
        if not far <= TOLERANCE:
            raise UserError(
                f"{run.folder}: cannot be exported: by a beam of {width} the files found an output whose "
                f"log-probability lies {far:.1g} from the run's own (allowed: {TOLERANCE:.0e}); a part of it cannot be "
                "traced"
            )
    return Checked(width, len(pairs), same, farthest)


def given(pair: Pair) -> Any:
    """A source as the runner takes it."""
    return list(pair.source) if pair.features is None else np.asarray(pair.features)


def _apart(run: TrainedRun, runner: Any, pair: Pair, outputs: tuple[list[str], list[str]], width: int) -> float:
    """How far the files' log-probabilities lie from the run's along its output and theirs, or from a tie."""
    assert isinstance(run.target, Vocabulary)
    paths = [[*run.target.encode(output), EOS] for output in outputs]
    mine, theirs = ([steps(path) for path in paths] for steps in (_by(run, pair), _by_files(runner, pair)))
    far = max(map(_difference, mine, theirs))
    if width == 1:
        parting = next(step for step, (one, other) in enumerate(zip(*paths, strict=False)) if one != other)
        one, other = (mine[0][parting, path[parting]] for path in paths)
        far = max(far, abs(float(one - other)))
    return far


def _difference(one: Steps, other: Steps) -> float:
    """The largest of log-probabilities (t, symbols); without end where only one of two can be written."""
    possible = np.isfinite(one)
    if (possible != np.isfinite(other)).any():
        return float("inf")
    return float(np.abs(one[possible] - other[possible]).max())


def _by(run: TrainedRun, pair: Pair) -> Any:
    """From a path of ids to the run's log-probabilities (t, symbols) of all that can come at its steps."""
    batch, model = run.predictor.data.judged_rows([pair]).whole(), run.model

    @torch.inference_mode()
    def steps(path: list[int]) -> Steps:
        state, symbol, found = model.init_state(batch.source, batch.present, batch.tag), BOS, []  # type: ignore[operator]
        for following in path:
            told, state, _ = model.decode_step(torch.tensor([symbol]), state)  # type: ignore[operator]
            found.append(told[0, EOS:].numpy())
            symbol = following
        return _whole(found)

    return steps


def _by_files(runner: Any, pair: Pair) -> Any:
    """As :func:`_by`, but the files'."""

    def steps(path: list[int]) -> Steps:
        state, symbol, found = runner.begin(given(pair), pair.tag), BOS, []
        for following in path:
            told, _, state = runner.step([symbol], state)
            found.append(told[0, EOS:])
            symbol = following
        return _whole(found)

    return steps


def _whole(found: list[Any]) -> Steps:
    """Steps as one array, with columns for the ids before the end, which never come."""
    table = np.stack(found)
    return np.concatenate([np.full((len(table), EOS), -np.inf), table], axis=1)

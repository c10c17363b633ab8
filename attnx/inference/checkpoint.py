"""Loads the model's weights from checkpoints of a run: of one, or the mean of several."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnx.errors import UserError

Weights = Mapping[str, Tensor]
MODEL = "model."  # before the names of the model's weights
# The weights that were validated, where they are not those that training goes on from.
VALIDATED = "validated_state_dict"
# What Lightning saves besides, and training goes on from.
RESUMED = ("optimizer_states", "lr_schedulers", "callbacks", "loops", "epoch", "global_step",
           "pytorch-lightning_version")  # fmt: skip


def load_weights(model: nn.Module, checkpoints: Sequence[Path]) -> None:
    """Load the mean of the model's weights in checkpoints.

    Raises:
        UserError: a checkpoint cannot be read, holds more than tensors and numbers, or does not fit the model.
    """
    states = (_fit(model, read_weights(checkpoint), checkpoint) for checkpoint in checkpoints)
    model.load_state_dict(average_weights(states))


def check_resumable(model: nn.Module, checkpoint: Path) -> None:
    """Refuse a checkpoint that lacks what training goes on from, or whose weights are of another configuration."""
    state = _read_state(checkpoint)
    _fit(model, _model_weights(state), checkpoint)
    if missing := [key for key in RESUMED if key not in state]:
        raise UserError(f"{checkpoint}: is not a complete checkpoint (it has no {', '.join(missing)})")


def _fit(model: nn.Module, weights: dict[str, Tensor], checkpoint: Path) -> dict[str, Tensor]:
    """The weights, if they have the names and shapes of the model's."""
    expected, saved = ({name: tuple(w.shape) for name, w in shapes.items()} for shapes in (model.state_dict(), weights))
    for name in [*expected, *saved]:
        if expected.get(name) != saved.get(name):
            in_model, in_file = (
                f"shape {shapes[name]}" if name in shapes else "nothing" for shapes in (expected, saved)
            )
            raise UserError(
                f"{checkpoint}: does not fit the run's configuration: {name} has {in_file} in the checkpoint and "
                f"{in_model} in the model"
            )
    return weights


def read_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Read the model's weights; a file that holds more than plain tensors and numbers is refused, not run."""
    return _model_weights(_read_state(checkpoint))


def _model_weights(state: Mapping[str, Any]) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = state.get(VALIDATED, state["state_dict"])
    return {name.removeprefix(MODEL): weight for name, weight in weights.items() if name.startswith(MODEL)}


def _read_state(checkpoint: Path) -> dict[str, Any]:
    """Read a checkpoint with its weights."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged file is reported below
            state = torch.load(checkpoint, map_location="cpu", weights_only=True)
            stored = {key: dict(state[key]) for key in ("state_dict", VALIDATED) if key in state or key != VALIDATED}
            for weights in stored.values():
                if not all(isinstance(name, str) and isinstance(weight, Tensor) for name, weight in weights.items()):
                    raise ValueError("it has something else than weights")
            return {**state, **stored}
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{checkpoint}: holds more than plain tensors and numbers, or is damaged; no code in it was run"
        ) from error
    except Exception as error:  # whatever torch raises for a foreign file
        reason = (str(error).splitlines() or [""])[0].strip()
        raise UserError(f"{checkpoint}: is not a complete checkpoint ({reason or type(error).__name__})") from error


def average_weights(states: Iterable[Weights]) -> dict[str, Tensor]:
    """The mean of each weight (Izmailov et al. 2018, https://arxiv.org/abs/1803.05407); integers are the last state's.

    Shapes are equal; one state at a time is in memory.

    >>> average_weights([{"w": torch.tensor([1.0, 5.0])}, {"w": torch.ones(2)}])
    {'w': tensor([1., 3.])}
    """
    sums: dict[str, Tensor] = {}
    last: Weights = {}
    for count, last in enumerate(states, start=1):  # noqa: B007
        sums = {name: weight.double() + sums.get(name, 0) for name, weight in last.items()}
    return {
        name: (sums[name] / count).to(weight.dtype) if weight.is_floating_point() else weight
        for name, weight in last.items()
    }

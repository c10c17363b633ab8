"""One model of several checkpoints of a run: the mean of their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from attnx.errors import UserError

Weights = Mapping[str, Tensor]


def average(states: Iterable[Weights]) -> dict[str, Tensor]:
    """The mean of each weight (Izmailov et al. 2018, https://arxiv.org/abs/1803.05407); what counts is the last one's.

    Args:
        states: one or more, of one shape; one at a time is looked at.

    Raises:
        UserError: there is none, or they are not of one shape.

    >>> average([{"w": torch.tensor([1.0, 5.0]), "n": torch.tensor(3)}, {"w": torch.ones(2), "n": torch.tensor(7)}])
    {'w': tensor([1., 3.]), 'n': tensor(7)}
    """
    sums: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    count = 0
    for state in states:
        if last and _shapes(state) != _shapes(last):
            raise UserError("only weights of one shape can be averaged; these are of models that differ")
        sums = {name: weight.double() + (sums[name] if sums else 0) for name, weight in state.items()}
        last, count = dict(state), count + 1
    if not count:
        raise UserError("there are no weights to average")
    return {
        name: (sums[name] / count).to(weight.dtype) if weight.is_floating_point() else weight
        for name, weight in last.items()
    }


def _shapes(state: Weights) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in state.items()}


def averaged(checkpoints: Iterable[Path]) -> dict[str, Tensor]:
    """The mean of the model's weights in checkpoints, of which nothing else is read."""
    return average(_model_of(path) for path in checkpoints)


def _model_of(checkpoint: Path) -> dict[str, Tensor]:
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    return {name.removeprefix("model."): weight for name, weight in state.items() if name.startswith("model.")}

"""Losses of optimizer steps, until a row has their mean."""

from __future__ import annotations

import torch
from torch import Tensor


class StepLosses:
    """Losses since the last mean. They stay where they were computed: to read one waits for a GPU.

    >>> losses = StepLosses()
    >>> for loss in (1.0, 3.0):
    ...     losses.add(torch.tensor(loss))
    >>> losses.take_mean(), losses.take_mean()
    (tensor(2., dtype=torch.float64), None)
    """

    def __init__(self) -> None:
        self._losses: list[Tensor] = []

    def add(self, loss: Tensor) -> None:
        """Add the loss () of a step."""
        self._losses.append(loss)

    def take_mean(self) -> Tensor | None:
        """The mean (), after which there are none; None if there are none."""
        if not self._losses:
            return None
        mean = self._stacked().mean()
        self._losses = []
        return mean

    def state(self) -> Tensor:
        """The losses (n,) on the CPU, for a checkpoint."""
        return self._stacked().cpu() if self._losses else torch.zeros(0)

    def restore(self, state: Tensor) -> None:
        """Restore the losses of a checkpoint."""
        self._losses = list(state.unbind())

    def _stacked(self) -> Tensor:
        device = self._losses[-1].device  # those of a checkpoint are on the CPU
        return torch.stack([loss.to(device, torch.float64) for loss in self._losses])

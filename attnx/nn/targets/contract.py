"""What a model, the loss and a search need to know of what is written, whatever it is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn


class GreedyStep(NamedTuple):
    """What one step of a greedy search takes.

    Attributes:
        written: (b, ...) the step that is written, and what the decoder reads next.
        score: (b,) its log-probability.
        ended: (b,) bool, whether it is the last one.
    """

    written: Tensor
    score: Tensor
    ended: Tensor


class TargetSpec(Protocol):
    """What a step of the target is. It holds no weights: those are the model's, in layers of the shapes it says."""

    @property
    def width(self) -> int:
        """How many numbers the output layer gives a step."""
        ...

    def embedding(self, size: int) -> nn.Module:
        """A layer from steps (b, t, ...) to vectors (b, t, size)."""
        ...

    def first(self, rows: int, device: torch.device) -> Tensor:
        """(rows, ...) what a decoder reads before anything is written."""
        ...

    def loss(self, outputs: Tensor, target: Tensor, present: Tensor, smoothing: float = 0.0) -> Tensor:
        """Outputs (b, t, width), the target (b, t, ...) and which steps are real (b, t) -> a sum over these."""
        ...

    def predicted(self, outputs: Tensor) -> Tensor:
        """Outputs (..., width) as a search reads them, of the same shape."""
        ...

    def pick(self, predicted: Tensor) -> GreedyStep:
        """The likeliest step, from what a search reads (b, width)."""
        ...

    def draw(self, outputs: Tensor) -> Tensor:
        """A step (b, ...) of the model's own from outputs (b, width), to be fed back while training."""
        ...

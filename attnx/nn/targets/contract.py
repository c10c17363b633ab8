"""The contract of a target: what a model, the loss and decoding need to know of one target step."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn


class GreedyStep(NamedTuple):
    """One step of greedy decoding.

    Attributes:
        output: (b, ...) the step's output, which is the decoder's next input.
        score: (b,) its log-probability.
        is_last: (b,) bool, whether the sequence ends with it.
    """

    output: Tensor
    score: Tensor
    is_last: Tensor


class TargetSpec(Protocol):
    """One step of a sequence: its shape, embedding, loss and predictions. It has no weights: those are the model's."""

    @property
    def width(self) -> int:
        """Size of the output layer."""
        ...

    def embedding(self, size: int) -> nn.Module:
        """A new layer from steps (b, t, ...) to vectors (b, t, size)."""
        ...

    def start_input(self, rows: int, device: torch.device) -> Tensor:
        """(rows, ...) the decoder's input at the first step."""
        ...

    def loss(self, outputs: Tensor, target: Tensor, target_mask: Tensor, smoothing: float = 0.0) -> Tensor:
        """Outputs (b, t, width), target (b, t, ...) and mask (b, t), False at padding -> the sum of the losses."""
        ...

    def predict(self, outputs: Tensor) -> Tensor:
        """Outputs (..., width) -> predictions of the same shape: log-probabilities of symbols, numbers unchanged."""
        ...

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """Take the likeliest step from predictions (b, width)."""
        ...

    def sample(self, outputs: Tensor) -> Tensor:
        """Sample a step (b, ...) from outputs (b, width), for scheduled sampling."""
        ...

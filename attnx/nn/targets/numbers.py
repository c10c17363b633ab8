"""A target of numbers: a row of them at every step, and with each row whether it is the last one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.nn.targets.contract import GreedyStep


@dataclass(frozen=True)
class Numbers:
    """Rows of scaled numbers (b, t, f); an output is such a row, and behind it the logit of this row being the last.

    Formula: ``loss = sum_t mean_f (y_tf - o_tf)^2 - log p(e_t), p(e_t = 1) = sigmoid(o_t,f+1)``, e_t = 1 at the last t

    Args:
        features: how many numbers a row has.
    """

    features: int

    @property
    def width(self) -> int:
        """A number for each feature, and one for the end."""
        return self.features + 1

    def embedding(self, size: int) -> nn.Linear:
        """A linear map of rows."""
        return nn.Linear(self.features, size)

    def first(self, rows: int, device: torch.device) -> Tensor:
        """(rows, f) zeros: the mean of the training part."""
        return torch.zeros(rows, self.features, device=device)

    def loss(self, outputs: Tensor, target: Tensor, present: Tensor, smoothing: float = 0.0) -> Tensor:
        """Squared error, the mean over features, and cross-entropy of the end, summed; nothing to smooth."""
        last = present.clone()
        last[:, :-1] &= ~present[:, 1:]
        squares = (outputs[..., :-1] - target).square().mean(-1)
        ends = F.binary_cross_entropy_with_logits(outputs[..., -1], last.to(outputs.dtype), reduction="none")
        return torch.where(present, squares + ends, 0.0).sum()

    def predicted(self, outputs: Tensor) -> Tensor:
        """As they are."""
        return outputs

    def pick(self, predicted: Tensor) -> GreedyStep:
        """The row, the last one if that is likelier than not; the score is that of ending or of going on."""
        end = predicted[:, -1]
        return GreedyStep(predicted[:, :-1], F.logsigmoid(end.abs()), end > 0)

    def draw(self, outputs: Tensor) -> Tensor:
        """The row: no chance is in it."""
        return outputs[:, :-1]

"""The target of numbers: a row of them at every step, and whether it is the last row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.nn.contracts import GreedyStep
from attnx.nn.targets.shared import SharedTarget


@dataclass(frozen=True)
class Numbers(SharedTarget):
    """Rows of scaled numbers (b, t, f); an output is one row, followed by the logit of this row being the last.

    Formula: ``loss = sum_t mean_f (y_tf - o_tf)^2 - log p(e_t), p(e_t = 1) = sigmoid(o_t,f+1)``, e_t = 1 at the last t
    """

    features: int  # numbers per row
    steps = None

    @property
    def width(self) -> int:
        """One number per feature, and one for the end."""
        return self.features + 1

    def embedding(self, size: int) -> nn.Linear:
        """A linear map of rows."""
        return nn.Linear(self.features, size)

    def start_input(self, rows: int, device: torch.device) -> Tensor:
        """(rows, f) zeros: the mean of the training split."""
        return torch.zeros(rows, self.features, device=device)

    def step_losses(self, outputs: Tensor, target: Tensor, target_mask: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Squared error, the mean over features, plus cross-entropy of the end; label smoothing has no effect."""
        is_last = target_mask.clone()
        is_last[:, :-1] &= ~target_mask[:, 1:]
        target = target.masked_fill(~target_mask[..., None], 0.0)  # NaN at padding would reach gradients
        squares = (outputs[..., :-1] - target).square().mean(-1)
        ends = F.binary_cross_entropy_with_logits(outputs[..., -1], is_last.to(outputs.dtype), reduction="none")
        return torch.where(target_mask, squares + ends, 0.0)

    def predict(self, outputs: Tensor) -> Tensor:
        """The outputs."""
        return outputs

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """The row, the last one if that is more likely than not; the score is the log-probability of that decision."""
        end_logits = predictions[:, -1]
        return GreedyStep(predictions[:, :-1], F.logsigmoid(end_logits.abs()), end_logits > 0)

    def sample(self, outputs: Tensor) -> Tensor:
        """The row: it is deterministic."""
        return outputs[:, :-1]

"""The target of symbols: one vocabulary id at every step, ending with EOS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.vocabulary import BOS, EOS, PAD
from attnx.nn.contracts import GreedyStep
from attnx.nn.targets.shared import SharedTarget


@dataclass(frozen=True)
class Symbols(SharedTarget):
    """Symbols as ids (b, t), predicted from logits.

    Formula: ``p(y_t) = softmax(o_t), loss = -sum_t log p(y_t)``
    """

    width: int  # size of the vocabulary
    steps = None

    def embedding(self, size: int) -> nn.Embedding:
        """One vector per symbol, zeros for PAD."""
        return nn.Embedding(self.width, size, padding_idx=PAD)

    def start_input(self, rows: int, device: torch.device) -> Tensor:
        """(rows,) BOS."""
        return torch.full((rows,), BOS, device=device)

    def step_losses(self, outputs: Tensor, target: Tensor, target_mask: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of each step, with label smoothing (Szegedy et al. 2016, https://arxiv.org/abs/1512.00567)."""
        losses = F.cross_entropy(
            outputs.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="none", label_smoothing=label_smoothing
        )
        return losses.view(target.shape)

    def predict(self, outputs: Tensor) -> Tensor:
        """Logits -> log-probabilities."""
        return torch.log_softmax(outputs, dim=-1)

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """The likeliest symbol, PAD and BOS excepted, whose ids come first."""
        score, index = predictions[:, EOS:].max(-1)
        symbol = index + EOS
        return GreedyStep(symbol, score, symbol == EOS)

    def sample(self, outputs: Tensor) -> Tensor:
        """A symbol drawn by its probability, PAD and BOS excepted."""
        return torch.multinomial(torch.softmax(outputs[:, EOS:], dim=-1), 1)[:, 0] + EOS

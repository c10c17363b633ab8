"""A target of symbols: one of a vocabulary at every step, the last one EOS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.special_tokens import BOS, EOS, PAD
from attnx.nn.targets.contract import GreedyStep


@dataclass(frozen=True)
class Symbols:
    """Symbols as ids (b, t), from logits; a search reads log-probabilities.

    Formula: ``p(y_t) = softmax(o_t), loss = -sum_t log p(y_t)``

    Args:
        width: how many symbols there are.
    """

    width: int

    def embedding(self, size: int) -> nn.Embedding:
        """A vector for each symbol; that of PAD is zeros."""
        return nn.Embedding(self.width, size, padding_idx=PAD)

    def first(self, rows: int, device: torch.device) -> Tensor:
        """(rows,) BOS."""
        return torch.full((rows,), BOS, device=device)

    def loss(self, outputs: Tensor, target: Tensor, present: Tensor, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy, summed, with label smoothing (Szegedy et al. 2016, https://arxiv.org/abs/1512.00567)."""
        return F.cross_entropy(
            outputs.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing
        )

    def predicted(self, outputs: Tensor) -> Tensor:
        """Logits to log-probabilities."""
        return torch.log_softmax(outputs, dim=-1)

    def pick(self, predicted: Tensor) -> GreedyStep:
        """The likeliest symbol that can be written: neither PAD nor BOS, whose ids come first."""
        score, place = predicted[:, EOS:].max(-1)
        symbol = place + EOS
        return GreedyStep(symbol, score, symbol == EOS)

    def draw(self, outputs: Tensor) -> Tensor:
        """A symbol by its probability."""
        return torch.multinomial(torch.softmax(outputs, dim=-1), 1)[:, 0]

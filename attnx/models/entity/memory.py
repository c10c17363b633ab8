"""Slots side by side: at each sentence each slot decides by a gate of its own how much of it to take in."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.models.entity.story_encoder import DEVIATION


class EntityMemory(nn.Module):
    """A memory that is written while a story is read.

    Formula: ``g_j = normalize(score(s, h_j + w_j)), h_j <- norm(h_j + g_j phi(U h_j + V w_j + W s))``
    Source: Henaff et al. 2017, equations 2 to 5, https://arxiv.org/abs/1612.03969

    With the scorer ``dot`` and the normalizer ``sigmoid`` it is the paper's ``g_j = sigmoid(s . h_j + s . w_j)``. A
    sentence that is not there changes nothing.

    Args:
        width: of sentences, contents and keys.
        scorer: how much a slot has to do with a sentence, from the sum of what it holds and its key.
        normalizer: how that becomes its gate.
        activation: phi.
        normalize: whether contents have length 1 after each sentence, so that they forget.
    """

    def __init__(
        self, width: int, scorer: nn.Module, normalizer: nn.Module, activation: nn.Module, normalize: bool
    ) -> None:
        super().__init__()
        self.scorer: Any = scorer
        self.normalizer, self.activation, self.normalize = normalizer, activation, normalize
        self.held, self.key, self.told = (_linear(width) for _ in range(3))

    def forward(self, sentences: Tensor, there: Tensor, keys: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Read sentences one after another.

        Args:
            sentences: (b, n, d).
            there: (b, n) bool, which of them there are; others stand behind them.
            keys: (j, d), what each slot is about.
            start: (j, d), what it holds at first.

        Returns:
            what the slots hold at last (b, j, d), and the gates (b, n, j).
        """
        rows, steps, _ = sentences.shape
        held = start.expand(rows, -1, -1)
        asked, told, key = self.scorer.queries(sentences), self.told(sentences), self.key(keys)
        everywhere = there.all(0).tolist()
        gates = [held.new_zeros(rows, 0, len(keys))]
        for step in range(steps):
            now = there[:, step, None, None]
            scores = self.scorer.compare(asked[:, step, None], self.scorer.keys(held + keys))
            gate = self.normalizer(scores, now.expand_as(scores))
            more = held + gate.mT * self.activation(self.held(held) + key + told[:, step, None])
            more = F.normalize(more, dim=-1) if self.normalize else more
            held = more if everywhere[step] else torch.where(now, more, held)
            gates.append(gate)
        return held, torch.cat(gates, 1)


class ChannelPReLU(nn.PReLU):
    """A slope for each unit of the last axis below zero, 1 at first: the identity.

    Formula: ``phi(x) = x if x > 0 else a x``
    Source: He et al. 2015, equation 1, https://arxiv.org/abs/1502.01852
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, init=1.0)

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., width), the same shape."""
        return super().forward(vectors.reshape(-1, self.num_parameters)).view(vectors.shape)


def _linear(width: int) -> nn.Linear:
    layer = nn.Linear(width, width, bias=False)
    nn.init.normal_(layer.weight, std=DEVIATION)
    return layer

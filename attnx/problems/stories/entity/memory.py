"""The memory of an entity network: parallel slots, each updated by a gate of its own after every sentence."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention.contracts import Normalizer, Scorer
from attnx.ops import is_all_true_on_cpu

INIT_STD = 0.1  # Henaff et al. 2017, section 5


class EntityGate(nn.Module):
    """The gates of all slots for one sentence: scores of the sums of a slot's content and key, normalized."""

    def __init__(self, scorer: Scorer, normalizer: Normalizer) -> None:
        super().__init__()
        self.scorer, self.normalizer = scorer, normalizer

    def forward(self, queries: Tensor, slots: Tensor, mask: Tensor) -> Tensor:
        """Queries (b, 1, d) that the scorer has prepared, slots (b, j, d) and mask (b, 1, 1) -> gates (b, 1, j)."""
        scores = self.scorer.score(queries, self.scorer.project_keys(slots))
        return self.normalizer(scores, mask.expand_as(scores))


class EntityMemory(nn.Module):
    """A memory of slots that is updated sentence by sentence.

    Formula: ``g_j = normalize(score(s, h_j + w_j)), h_j <- norm(h_j + g_j phi(U h_j + V w_j + W s))``
    Source: Henaff et al. 2017, equations 2 to 5, https://arxiv.org/abs/1612.03969

    With the scorer ``dot`` and the normalizer ``sigmoid`` the gate is the paper's ``g_j = sigmoid(s . h_j + s . w_j)``.
    Padding changes nothing.

    Args:
        hidden_size: width of sentences, contents and keys.
        num_slots: number of slots.
        gate: how much of a sentence each slot takes in.
        activation: phi.
        normalize: whether contents are scaled to length 1 after each sentence, so that they forget.
        keys: ``free`` (learned), or ``tied`` to word embeddings, which :meth:`forward` then needs.
        initial_state: a slot's first content: its key (``keys``), or ``learned``.
    """

    def __init__(
        self,
        hidden_size: int,
        num_slots: int,
        gate: EntityGate,
        activation: nn.Module,
        normalize: bool = True,
        keys: Literal["free", "tied"] = "free",
        initial_state: Literal["keys", "learned"] = "keys",
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_slots, self.normalize = hidden_size, num_slots, normalize
        self.gate, self.activation = gate, activation
        self.map_content, self.map_key, self.map_sentence = (_linear(hidden_size) for _ in range(3))
        self.keys = _slot_vectors(num_slots, hidden_size) if keys == "free" else None
        self.initial_state = _slot_vectors(num_slots, hidden_size) if initial_state == "learned" else None

    def forward(self, sentences: Tensor, mask: Tensor, words: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Update the slots by one sentence after another.

        Args:
            sentences: (b, n, d).
            mask: (b, n) bool, False at padding, which comes last.
            words: (j, d) embeddings of the words that ``tied`` keys are tied to.

        Returns:
            the final contents (b, j, d), and the gates (b, n, j).
        """
        keys = words if self.keys is None else self.keys
        assert keys is not None, "tied keys need word embeddings"
        rows, steps, _ = sentences.shape
        contents = (keys if self.initial_state is None else self.initial_state).expand(rows, -1, -1)
        queries, inputs = self.gate.scorer.project_queries(sentences), self.map_sentence(sentences)
        key_term = self.map_key(keys)
        gates = [contents.new_zeros(rows, 0, len(keys))]
        for step in range(steps):
            step_mask = mask[:, step, None, None]
            gate = self.gate(queries[:, step, None], contents + keys, step_mask)
            update = self.activation(self.map_content(contents) + key_term + inputs[:, step, None])
            updated = contents + gate.mT * update
            updated = F.normalize(updated, dim=-1) if self.normalize else updated
            contents = updated if is_all_true_on_cpu(step_mask) else torch.where(step_mask, updated, contents)
            gates.append(gate)
        return contents, torch.cat(gates, 1)


class ChannelPReLU(nn.PReLU):
    """PReLU with a slope for each unit of the last axis, initially 1: the identity.

    Formula: ``phi(x) = x if x > 0 else a x``
    Source: He et al. 2015, equation 1, https://arxiv.org/abs/1502.01852
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__(hidden_size, init=1.0)

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., hidden_size), the same shape."""
        return super().forward(vectors.reshape(-1, self.num_parameters)).view(vectors.shape)


def _linear(size: int) -> nn.Linear:
    layer = nn.Linear(size, size, bias=False)
    nn.init.normal_(layer.weight, std=INIT_STD)
    return layer


def _slot_vectors(num_slots: int, size: int) -> nn.Parameter:
    return nn.Parameter(INIT_STD * torch.randn(num_slots, size))

"""A target of one symbol: the answer, and nothing to be said after it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.data.special_tokens import EOS, UNK
from attnx.nn.targets.contract import GreedyStep
from attnx.nn.targets.symbols import Symbols

FIRST = UNK + 1


@dataclass(frozen=True)
class SingleLabelTarget(Symbols):
    """One of a vocabulary's symbols, its specials excepted; that EOS comes next is certain.

    Formula: ``p(y) = softmax(o), loss = -log p(y)``

    An answer that the vocabulary lacks cannot be written, and adds nothing to the loss.
    """

    def loss(self, outputs: Tensor, target: Tensor, present: Tensor, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of the first steps, summed, with label smoothing; the outputs may have no others."""
        answer = target[:, 0] - FIRST  # UNK becomes -1
        given = outputs[:, 0, FIRST:]
        return F.cross_entropy(given, answer, ignore_index=-1, reduction="sum", label_smoothing=smoothing)

    def predicted(self, outputs: Tensor) -> Tensor:
        """Logits to log-probabilities; -inf for what is no answer."""
        return F.pad(torch.log_softmax(outputs[..., FIRST:], dim=-1), (FIRST, 0), value=-torch.inf)

    def after(self, predicted: Tensor) -> Tensor:
        """What a search reads once there is an answer: EOS, of the same shape."""
        return torch.full_like(predicted, -torch.inf).index_fill_(-1, torch.tensor([EOS], device=predicted.device), 0.0)

    def pick(self, predicted: Tensor) -> GreedyStep:
        """The likeliest symbol, the last step at once."""
        picked = super().pick(predicted)
        return picked._replace(ended=torch.ones_like(picked.ended))

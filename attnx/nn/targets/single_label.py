"""The target of classification: exactly one label, which is computed before the first step of decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.data.vocabulary import EOS, UNK
from attnx.nn.contracts import GreedyStep
from attnx.nn.targets.symbols import Symbols

FIRST_LABEL_ID = UNK + 1


@dataclass(frozen=True)
class SingleLabelTarget(Symbols):
    """One symbol of a vocabulary, special tokens excepted; EOS follows with probability 1.

    Formula: ``p(y) = softmax(o), loss = -log p(y)``

    A label that the vocabulary lacks cannot be predicted, and adds nothing to the loss.
    """

    def step_losses(self, outputs: Tensor, target: Tensor, target_mask: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of the first step, with label smoothing, 0 of others; outputs may have no further steps."""
        labels = target[:, 0] - FIRST_LABEL_ID  # UNK becomes -1
        logits = outputs[:, 0, FIRST_LABEL_ID:]
        losses = F.cross_entropy(logits, labels, ignore_index=-1, reduction="none", label_smoothing=label_smoothing)
        return F.pad(losses[:, None], (0, target.shape[1] - 1))

    def predict(self, outputs: Tensor) -> Tensor:
        """Logits -> log-probabilities; -inf for special tokens."""
        return label_log_probs(outputs)

    def end_log_probs(self, log_probs: Tensor) -> Tensor:
        """Log-probabilities of the step after the label, of the same shape: EOS is certain."""
        eos = torch.tensor([EOS], device=log_probs.device)
        return torch.full_like(log_probs, -torch.inf).index_fill_(-1, eos, 0.0)

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """The likeliest label, which ends the sequence."""
        step = super().greedy(predictions)
        return step._replace(is_last=torch.ones_like(step.is_last))


def label_log_probs(logits: Tensor) -> Tensor:
    """Logits (..., symbols) -> log-probabilities, -inf for special tokens."""
    log_probs = torch.log_softmax(logits[..., FIRST_LABEL_ID:], dim=-1)
    return F.pad(log_probs, (FIRST_LABEL_ID, 0), value=-torch.inf)


class LabelState(NamedTuple):
    """The labels of a batch, which decoding gives out; every tensor has the batch as its first axis."""

    log_probs: Tensor  # (b, symbols) of the label
    context: Tensor  # (b, v) of attention
    weights: Tensor  # (b, 1, s), or (b, h, 1, s) of several heads, slots or rows
    step: Tensor  # (b,) int64, the number of steps taken


def decode_label(
    target: SingleLabelTarget, state: LabelState, need_weights: bool
) -> tuple[Tensor, LabelState, AttentionOutput]:
    """The log-probabilities of the label at the first step, and of EOS afterwards."""
    is_labeled = (state.step > 0)[:, None]
    log_probs = torch.where(is_labeled, target.end_log_probs(state.log_probs), state.log_probs)
    later = is_labeled.view(-1, *[1] * (state.weights.dim() - 1))
    weights = state.weights.masked_fill(later, 0.0) if need_weights else None
    return log_probs, state._replace(step=state.step + 1), AttentionOutput(state.context[:, None], weights)

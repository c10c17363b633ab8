"""The state of models whose output is one label: all is computed before the first step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.nn.targets.single_label import SingleLabelTarget


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

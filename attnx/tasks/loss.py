"""The teacher-forced loss of a batch, for every task."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx.data.batches import Batch
from attnx.ops import reinforce_loss


class Loss(NamedTuple):
    """A loss as a sum and the number of target steps it sums over, so that means stay exact across batches."""

    total: Tensor  # cross-entropy of symbols; for numbers, squared error and cross-entropy of the end
    tokens: Tensor  # number of steps
    # sum of what attention adds in training, and of the REINFORCE term of sampled positions; 0 for most parts
    penalty: Tensor

    @property
    def mean(self) -> Tensor:
        """The training loss per step."""
        return (self.total + self.penalty) / self.tokens


def token_loss(model: Any, batch: Batch, label_smoothing: float = 0.0, scheduled_sampling: float = 0.0) -> Loss:
    """Compute the teacher-forced loss: cross-entropy of symbols, EOS included, or the target's own loss.

    A step with missing numbers counts as the share of its measured numbers; where the batch has a ``loss_mask``, only
    its steps count. ``label_smoothing`` is label smoothing, ``scheduled_sampling`` the probability to feed the model's
    own outputs back. Where attention sampled positions, the penalty has a term with the gradient of
    :func:`attnx.ops.reinforce_loss`.
    """
    source, target = model.target.prepare(batch.source, batch.target)
    inputs = model.target.decoder_inputs(source, target)
    # Models that compute all steps at once do not know it.
    options: dict[str, Any] = {"scheduled_sampling": scheduled_sampling} if scheduled_sampling else {}
    if batch.loss_mask is not None:
        options["output_mask"] = batch.loss_mask
    output = model(source, batch.source_mask, inputs, batch.tag, source_lengths=batch.source_lengths, **options)
    mask, logits = batch.target_mask if batch.loss_mask is None else batch.loss_mask, output.logits
    tokens = mask.sum()
    if batch.measured_mask is not None:  # missing numbers get loss 0
        tokens = (batch.measured_mask & mask[..., None]).sum() / target.shape[-1]
        target = target.masked_fill(~batch.measured_mask, 0.0)
        logits = logits.masked_fill(~batch.measured_mask.repeat(1, 1, logits.shape[-1] // target.shape[-1]), 0.0)
    if batch.loss_mask is None:
        losses = model.target.step_losses(logits, target, mask, label_smoothing)
    else:  # logits (n, width) of the steps that count; those of others are not computed
        counted = model.target.step_losses(logits[None], target[mask][None], mask[mask][None], label_smoothing)
        losses = torch.zeros_like(mask, dtype=counted.dtype).masked_scatter(mask, counted)
    total = losses.sum()
    penalty = torch.zeros_like(total) if output.penalty is None else (output.penalty * mask).sum()
    if output.log_prob is not None:
        term = reinforce_loss(output.log_prob, losses, mask, model.reads_are_independent)
        penalty = penalty + (term - term.detach())  # the term's gradient is meaningful, but its value is not
    return Loss(total, tokens, penalty)

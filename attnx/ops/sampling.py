"""Positions sampled from probabilities, and REINFORCE, the gradient of an expected loss through them."""

from __future__ import annotations

import torch
from torch import Tensor


def sample_one_hot(probabilities: Tensor) -> Tensor:
    """One-hot at a position sampled by its probability, from torch's random numbers; without a gradient.

    Formula: ``the first m with p_1 + ... + p_m > u (p_1 + ... + p_M), u uniform in [0, 1)``

    Args:
        probabilities: (..., m), not negative; rows need not sum to 1.

    Returns:
        (..., m), each row one 1 among zeros, or all zeros if its probabilities are.

    >>> sample_one_hot(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    tensor([[0., 1., 0.],
            [0., 0., 0.]])
    """
    cumulative = probabilities.detach().float().cumsum(-1)
    uniform = torch.rand(*cumulative.shape[:-1], 1, device=cumulative.device)
    index = (cumulative <= uniform * cumulative[..., -1:]).sum(-1, keepdim=True)
    return (torch.arange(cumulative.shape[-1], device=index.device) == index).to(probabilities.dtype)


def reinforce_loss(log_probs: Tensor, losses: Tensor, mask: Tensor, steps_are_independent: bool = False) -> Tensor:
    """The REINFORCE loss, a scalar: its gradient estimates that of the expected loss through the samples without bias.

    Formula: ``sum_it log p(s_it) sum_{u >= t} (loss_iu - b_i)``, b_i the mean loss of a step of the other rows
    Source: Williams 1992, section 3, https://doi.org/10.1007/BF00992696; Xu et al. 2015, equations 11 and 12,
        https://arxiv.org/abs/1502.03044

    A sample changes no earlier step, so its reward is minus the loss from its step on; of independent steps, minus the
    loss of its step. The baseline of a row depends on no sample of that row, so that it does not bias the gradient; of
    a single row it is 0. No gradient goes through the rewards.

    Args:
        log_probs: (b, t) of what was sampled at each step; 0 where nothing was.
        losses: (b, t) of each step, such as minus the log-likelihood of the target.
        mask: (b, t) bool, False at padding.
        steps_are_independent: whether a sample changes the loss of its step alone: u = t.

    >>> import torch
    >>> losses, mask = torch.tensor([[1.0, 3.0], [5.0, 0.0]]), torch.tensor([[True, True], [True, False]])
    >>> reinforce_loss(torch.tensor([[0.5, 0.0], [0.0, 0.0]]), losses, mask)  # 0.5 (1 - 5 + 3 - 5)
    tensor(-3.)
    """
    losses, steps = losses.detach().masked_fill(~mask, 0.0), mask.sum(1)
    totals = losses.sum(1)
    baselines = (totals.sum() - totals) / (steps.sum() - steps).clamp(min=1)
    advantages = (losses - baselines[:, None]) * mask
    if not steps_are_independent:
        advantages = advantages.flip(1).cumsum(1).flip(1)
    return (log_probs * advantages).sum()

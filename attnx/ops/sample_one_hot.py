"""One position sampled from each row of probabilities."""

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

"""The delta rule: a state that forgets what it holds of a key as it takes up the key's new value."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.mixers.chunks import chunk_decays

SMALLEST_SQUARE = 1e-6  # that is added to the squares of a vector before it is scaled to length 1


def run_delta_chunk(
    products: Tensor, queries: Tensor, keys: Tensor, values: Tensor, rates: Tensor, log_decays: Tensor
) -> tuple[Tensor, Tensor]:
    """Run the delta rule over a chunk.

    Formula: ``S' = a_t S_{t-1}, S_t = S' + k_t n_t^T, n_t = b_t (v_t - S'^T k_t), o_t = S_t^T q_t``
    Source: Yang et al. 2025, section 3.3, https://arxiv.org/abs/2412.06464; the n of a chunk solve one
        triangular system

    Args:
        products: (b, h, k, v), the state before the chunk.
        queries: (b, h, c, k).
        keys: (b, h, c, k), of length 1.
        values: (b, h, c, v).
        rates: (b, h, c), each b_t.
        log_decays: (b, h, c), the logarithm of each a_t.

    Returns:
        (b, h, c, v), and the state after the chunk.
    """
    decays, rates = chunk_decays(log_decays), rates[..., None]
    since_start = decays.since_start[..., None]
    news = rates * (values - since_start * (keys @ products))
    if keys.shape[-2] > 1:  # a position's news depend on those of earlier ones
        overlaps = (rates * (keys @ keys.mT) * decays.between).tril(-1)  # (b, h, c, c)
        # The diagonal, which is taken to be 1, is not read.
        news = torch.linalg.solve_triangular(overlaps, news, upper=False, unitriangular=True)
    context = since_start * (queries @ products) + (queries @ keys.mT * decays.between) @ news
    kept_keys = decays.until_end[..., None] * keys
    return context, decays.total[..., None, None] * products + kept_keys.mT @ news


def unit_length(vectors: Tensor) -> Tensor:
    """Vectors (..., k) scaled to length 1, in float32 or wider."""
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + SMALLEST_SQUARE)

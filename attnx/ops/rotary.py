"""Rotary position embeddings (RoPE): inner products of rotated vectors depend on relative positions only."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.ops.normalize import at_least_float32


def rope_cos_sin(positions: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """Cosines and sines of the angles by which vectors of an even width are turned at each position.

    Su et al. 2021, equations 15 and 34, https://arxiv.org/abs/2104.09864: pair i turns by position / base^(2i / d).

    Args:
        positions: (..., m) int64.
        width: of the vectors.
        base: the larger it is, the more slowly the last pairs turn.

    Returns:
        (2, ..., m, width / 2).
    """
    dtype = at_least_float32(torch.get_default_dtype())  # 16 bits do not hold angles
    pairs = torch.arange(width // 2, device=positions.device, dtype=dtype)
    angles = positions[..., None] * base ** (-2 * pairs / width)
    return torch.stack([angles.cos(), angles.sin()]).to(torch.get_default_dtype())


def apply_rope(vectors: Tensor, by: Tensor) -> Tensor:
    """Turn vectors (..., m, d); pair i is made of unit i and of unit i + d / 2.

    Args:
        vectors: (..., m, d).
        by: (2, ..., m, d / 2) from :func:`rope_cos_sin`, broadcast against ``vectors``.

    >>> quarter = torch.tensor([[0.0], [1.0]])
    >>> apply_rope(torch.tensor([3.0, 5.0], dtype=torch.bfloat16), quarter)
    tensor([-5.,  3.], dtype=torch.bfloat16)
    """
    first, second = vectors.chunk(2, dim=-1)
    cosine, sine = by
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return turned.to(vectors.dtype)

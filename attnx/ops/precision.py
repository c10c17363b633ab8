"""The type of numbers for which 16 bits are too few."""

from __future__ import annotations

import torch


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The type itself, or float32 for a type of 16 bits.

    >>> at_least_float32(torch.bfloat16), at_least_float32(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)

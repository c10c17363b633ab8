"""The types of numbers in which sums and products are computed."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The type itself, or float32 for a type of 16 bits.

    >>> at_least_float32(torch.bfloat16), at_least_float32(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def has_autocast(tensor: Tensor) -> bool:
    """Whether autocast decides in which type matrix products with a tensor are computed; the device meta has none."""
    is_enabled = not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)
    return is_enabled and tensor.dtype != torch.float64


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The type in which matrix products with a tensor are computed: its own, or that of autocast."""
    return torch.get_autocast_dtype(tensor.device.type) if has_autocast(tensor) else tensor.dtype

"""Whether torch follows what is done, so that nothing but its own operations may be used and no number looked at."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def followed() -> bool:
    """Whether a model is being traced, compiled, exported or vectorized just now."""
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or torch._C._are_functorch_transforms_active()


def open_to_c(tensor: Tensor) -> bool:
    """Whether C may compute with a tensor's numbers: in single precision, on a CPU, where nobody follows."""
    plain = type(tensor) in (Tensor, nn.Parameter) and tensor.dtype == torch.float32 and tensor.device.type == "cpu"
    return plain and not (torch.is_autocast_enabled("cpu") or followed())


def known_all(mask: Tensor) -> bool:
    """Whether a mask is True everywhere, as far as that is told at no cost: on a CPU, where nobody follows."""
    plain = type(mask) is Tensor and mask.device.type == "cpu" and not followed()
    return plain and bool(mask.all())

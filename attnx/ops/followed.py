"""Whether torch follows what is done, so that nothing but its own operations may be used and no number looked at."""

from __future__ import annotations

import torch
from torch import Tensor


def followed() -> bool:
    """Whether a model is being traced, compiled, exported or vectorised just now."""
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or torch._C._are_functorch_transforms_active()


def known_all(mask: Tensor) -> bool:
    """Whether a mask is True everywhere, as far as that is told at no cost: on a CPU, where nobody follows."""
    plain = type(mask) is Tensor and mask.device.type == "cpu" and not followed()
    return plain and bool(mask.all())

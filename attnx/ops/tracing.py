"""Whether torch is recording what runs, so that no branch may depend on a tensor's numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_tracing() -> bool:
    """Whether a model is being traced, compiled, exported, vectorized or differentiated forwards."""
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def is_all_true_on_cpu(mask: Tensor) -> bool:
    """Whether a mask is known to be True everywhere. False on other devices and while tracing: nothing waits."""
    is_plain = type(mask) is Tensor and mask.device.type == "cpu" and not is_tracing()
    return is_plain and bool(mask.all())

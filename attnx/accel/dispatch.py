"""Whether C may compute with a tensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.ops.tracing import is_tracing


def can_use_c(tensor: Tensor) -> bool:
    """Whether a tensor is in single precision on a CPU, without autocast or tracing."""
    is_plain = type(tensor) in (Tensor, nn.Parameter) and tensor.dtype == torch.float32 and tensor.device.type == "cpu"
    return is_plain and not (torch.is_autocast_enabled("cpu") or is_tracing())

"""Whether torch follows what is done, so that nothing but its own operations may be used."""

from __future__ import annotations

import torch


def followed() -> bool:
    """Whether a model is being traced, compiled, exported or vectorised just now."""
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or torch._C._are_functorch_transforms_active()

"""Builds a model's kernels before a run begins, and says which of them it has."""

from __future__ import annotations

import torch
from torch import nn

from attnx import registry
from attnx.accel.attention.kernel_call import build_failure, is_for


def build_kernels(model: nn.Module, device: torch.device) -> str:
    """Build the kernels of a model for a device, and return what the start table says of them.

    A kernel that cannot be built is left out and the next in line serves. Of C files the start table has a line of
    their own (:func:`attnx.accel.prebuild.without_c`), so that a kernel in C is left out here without a reason.
    """
    kernels_for_device = [
        kernel for part in model.modules() for kernel in getattr(part, "kernels", ()) if is_for(kernel, device)
    ]
    kernels = {registry.registered_name("kernel", type(kernel)): kernel for kernel in kernels_for_device}
    # The start table is where it is said.
    failures = {name: build_failure(kernel, device, warn=str) for name, kernel in kernels.items()}
    built = [str(name) for name, failure in failures.items() if failure is None]
    fallback = "what none of them admits is read by the definition"
    notes = [f"{' '.join(built)}; {fallback}" if built else "none: every read is by the definition"]
    for name, failure in failures.items():
        if failure is not None and not hasattr(kernels[name], "source"):
            notes.append(f"{name} cannot be built and is left out: {failure}")
    return "; ".join(notes)

"""Says where an optimizer takes torch's fused kernel."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def needs_fused_kernel(parameters: Iterable[torch.Tensor]) -> bool:
    """Whether all parameters are on a CPU, where torch would update them with ten operations each.

    A GPU updates them together without it. There, Lightning does not clip the gradients of a fused optimizer with
    ``trainer.precision=16-mixed``.
    """
    return all(parameter.device.type == "cpu" for parameter in parameters)

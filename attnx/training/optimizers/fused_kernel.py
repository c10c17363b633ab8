"""Says where an optimizer takes torch's fused kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch


def choose_fused(parameters: Iterable[torch.Tensor]) -> Literal[True] | None:
    """``fused`` of torch's optimizers: True on a CPU, where torch would update each weight with ten operations.

    None elsewhere: a GPU then updates all weights together. Lightning does not clip the gradients of a fused optimizer
    with ``trainer.precision=16-mixed``.
    """
    return True if all(parameter.device.type == "cpu" for parameter in parameters) else None

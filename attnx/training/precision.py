"""Numerical precision of training: floating-point types and TF32."""

from __future__ import annotations

from typing import Any

import torch
from lightning.fabric.plugins.precision import DoublePrecision, MixedPrecision, Precision


def precision_of(name: Any, device: torch.device) -> Precision:
    """Lightning's plug-in for a ``trainer.precision``, which converts the model and its batches."""
    if name == 64:
        return DoublePrecision()
    return MixedPrecision(name, device.type) if name in ("bf16-mixed", "16-mixed") else Precision()


def set_tf32(name: Any) -> None:
    """Let a GPU round factors of products to 10 bits if ``trainer.precision=tf32``, in cuDNN's RNNs too."""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = name == "tf32"

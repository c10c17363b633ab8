"""How exactly a run computes: in which kind of numbers, and how its factors are rounded."""

from __future__ import annotations

from typing import Any

import torch
from lightning.fabric.plugins.precision import DoublePrecision, MixedPrecision, Precision


def precision_of(name: Any, device: torch.device) -> Precision:
    """What converts a model and its batches to what ``trainer.precision`` says."""
    if name == 64:
        return DoublePrecision()
    return MixedPrecision(name, device.type) if name in ("bf16-mixed", "16-mixed") else Precision()


def round_factors(name: Any) -> None:
    """Let a GPU round the factors of its products to 10 bits if ``trainer.precision`` says so, of recurrences too."""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = name == "tf32"

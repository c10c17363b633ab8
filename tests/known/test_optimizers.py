"""Optimizers take the kernels of torch that are fastest on the device of the weights."""

from __future__ import annotations

import pytest
import torch

from attnx import registry


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize(("device", "is_fused"), [("cpu", True), ("meta", None)])
def test_fused_kernels_are_for_the_cpu(name: str, device: str, is_fused: bool | None) -> None:
    """Elsewhere torch decides, which False would keep from updating all weights together."""
    optimizer = registry.find("optimizer", name)([torch.zeros(3, device=device)])
    assert optimizer.param_groups[0]["fused"] is is_fused

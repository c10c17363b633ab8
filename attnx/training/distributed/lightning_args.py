"""Where and how Lightning trains: on one device, or as one of several processes that attnx has started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, Strategy

from attnx.training.distributed.model_parallel import ModelParallelStrategy
from attnx.training.distributed.process_group import here


def where(
    accelerator: str, devices: int | None, nodes: int, strategy: str, placed: Mapping[str, torch.device]
) -> dict[str, Any]:
    """Lightning's arguments.

    Raises:
        RuntimeError: several processes are asked for, and this is none of them.
    """
    place = here()
    if placed:
        kind = "gpu" if placed["decoder"].type == "cuda" else "cpu"
        index = [placed["decoder"].index] if kind == "gpu" else 1
        return {"accelerator": kind, "devices": index, "strategy": ModelParallelStrategy(placed)}
    if place.world == 1:
        if devices not in (1, None) or nodes != 1:
            raise RuntimeError(f"devices={devices}, nodes={nodes}: a trainer of several is built in their processes")
        return {"accelerator": accelerator, "devices": 1}
    return {
        "accelerator": "gpu" if place.backend == "nccl" else "cpu",
        "devices": place.beside,
        "num_nodes": nodes,
        "strategy": _strategy(strategy),
    }


def _strategy(name: str) -> Strategy:
    # It reads what `joined` set: Lightning is to start no processes itself, whatever cluster it may find around it.
    environment = TorchElasticEnvironment()
    if name == "fsdp":
        return FSDPStrategy(cluster_environment=environment, state_dict_type="full")
    return DDPStrategy(cluster_environment=environment, gradient_as_bucket_view=True)

"""Lightning's arguments for devices and strategy: one device, parts on devices of their own, or one rank of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, Strategy

from attnx.training.distributed.model_parallel import ModelParallelStrategy
from attnx.training.distributed.process_group import rank_info


def trainer_kwargs(
    accelerator: str, devices: int | None, nodes: int, strategy: str, placement: Mapping[str, torch.device]
) -> dict[str, Any]:
    """Keyword arguments of ``lightning.Trainer``.

    Raises:
        RuntimeError: several processes are asked for, and this is none of them.
    """
    info = rank_info()
    if placement:
        kind = "gpu" if placement["decoder"].type == "cuda" else "cpu"
        index = [placement["decoder"].index] if kind == "gpu" else 1
        return {"accelerator": kind, "devices": index, "strategy": ModelParallelStrategy(placement)}
    if info.world_size == 1:
        if devices not in (1, None) or nodes != 1:
            raise RuntimeError(f"devices={devices}, nodes={nodes}: build the trainer in a process of a process group")
        return {"accelerator": accelerator, "devices": 1}
    return {
        "accelerator": "gpu" if info.backend == "nccl" else "cpu",
        "devices": info.local_world_size,
        "num_nodes": nodes,
        "strategy": _strategy(strategy),
    }


def _strategy(name: str) -> Strategy:
    # It reads the variables that `init_process_group` sets: Lightning must start no processes itself, on any cluster.
    environment = TorchElasticEnvironment()
    if name == "fsdp":
        return FSDPStrategy(cluster_environment=environment, state_dict_type="full")
    return DDPStrategy(cluster_environment=environment, gradient_as_bucket_view=True)

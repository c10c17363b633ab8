"""On how many devices a run trains, and where each of its processes is; what cannot be is told at once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import torch

from attnx.errors import UserError
from attnx.training.distributed.process_group import RankInfo, here

# Ports that jobs of a cluster may take; which one follows from the job's number.
PORTS = range(20000, 30000)


def several(trainer: Mapping[str, Any]) -> bool:
    """Whether a run asks for more than one process."""
    return (trainer.get("devices", 1), trainer.get("num_nodes", 1)) != (1, 1)


def to_be_started(config: Mapping[str, Any]) -> bool:
    """Whether a run asks for processes, and this is none of them."""
    return several(config["trainer"]) and here().world == 1


def with_devices(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the number of devices that there are where none is said.

    Raises:
        UserError: as :func:`counted`; or parts of the model are to be on devices of their own besides.
    """
    if config.get("placement") and several(config["trainer"]):
        raise UserError(
            "placement puts one model on several devices, trainer=ddp a copy on each; leave one of them out"
        )
    return {**config, "trainer": counted(config["trainer"]) if here().world == 1 else config["trainer"]}


def counted(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's knobs with the number of devices that there are where none is said.

    Raises:
        UserError: there are not so many, or not of that kind, or their number cannot be known.
    """
    gpus = 0 if trainer.get("accelerator") == "cpu" else torch.cuda.device_count()
    asked = trainer.get("devices", 1)
    if trainer.get("accelerator") == "gpu" and not gpus and several(trainer):
        raise UserError("trainer.accelerator=gpu: there is no GPU to be seen here that several processes can train on")
    if asked is None and not gpus:
        raise UserError("trainer.devices: there is no GPU to be seen here; say how many processes: trainer.devices=2")
    if gpus and several(trainer) and (asked or 0) > gpus:
        raise UserError(
            f"trainer.devices={asked}: GPUs to be seen here: {gpus}; say as many, or trainer.accelerator=cpu"
        )
    if trainer.get("strategy") == "fsdp" and several(trainer) and not gpus:
        raise UserError(
            "trainer=fsdp shares a model out among GPUs, and there is none to be seen here; use trainer=ddp"
        )
    return {**trainer, "devices": asked or gpus} if "devices" in trainer else dict(trainer)


def device_of(trainer: Mapping[str, Any]) -> torch.device:
    """Where this process will train."""
    gpu = trainer.get("accelerator") != "cpu" and torch.cuda.is_available()
    return torch.device("cuda", here().local) if gpu else torch.device("cpu")


def places(trainer: Mapping[str, Any]) -> list[RankInfo]:
    """Of each process on this machine.

    Args:
        trainer: knobs, counted.

    Raises:
        UserError: there are several machines, and it is not said which one this is, or where they meet.
    """
    beside, nodes = trainer["devices"], trainer["num_nodes"]
    gpus = trainer["accelerator"] != "cpu" and torch.cuda.device_count() > 0
    node, meeting = _of_several(nodes) if nodes > 1 else (0, "")
    return [
        RankInfo(
            rank=node * beside + local,
            world=nodes * beside,
            local=local,
            beside=beside,
            node=node,
            backend="nccl" if gpus else "gloo",
            meeting=meeting,
        )
        for local in range(beside)
    ]


def _of_several(nodes: int) -> tuple[int, str]:
    """The number of this machine, and where all of them meet."""
    number = os.environ.get("NODE_RANK", os.environ.get("SLURM_NODEID", ""))
    job = os.environ.get("SLURM_JOB_ID", "")
    address = os.environ.get("MASTER_ADDR") or _first_host(os.environ.get("SLURM_JOB_NODELIST", ""))
    port = os.environ.get("MASTER_PORT") or (str(PORTS[int(job) % len(PORTS)]) if job.isdecimal() else "")
    if not (number.isdecimal() and address and port.isdecimal()):
        raise UserError(
            f"trainer.num_nodes={nodes}: start the command once on each machine, by srun --ntasks-per-node=1, or with "
            "NODE_RANK (0, 1, ...), MASTER_ADDR and MASTER_PORT in its environment"
        )
    if int(number) >= nodes or os.environ.get("SLURM_NNODES", str(nodes)) != str(nodes):
        there = os.environ.get("SLURM_NNODES", f"{int(number) + 1} or more")
        raise UserError(f"trainer.num_nodes={nodes}: but the command was started on {there} machines; say as many")
    return int(number), f"tcp://{address}:{port}"


def _first_host(names: str) -> str:
    """The first of SLURM's names of machines.

    >>> _first_host("gpu[07-09,12],cpu1"), _first_host("one,two")
    ('gpu07', 'one')
    """
    return re.sub(r"^([^,\[]*)(?:\[(\w+).*|,.*)?$", r"\1\2", names)

"""Devices of a run: how many processes train, and the rank of each one on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.training.distributed.launched_rank import RankInfo, launched_rank
from attnx.training.distributed.process_group import ENVIRONMENT, rank_info

# Ports of the rendezvous; which one follows from the job's id.
CLUSTER_PORTS = range(20000, 30000)


def needs_processes(trainer: Mapping[str, Any]) -> bool:
    """Whether a run trains in more than one process."""
    return (trainer["devices"], trainer["num_nodes"]) != (1, 1)


def resolve_devices(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose ``trainer.devices`` is a number.

    Raises:
        UserError: as :func:`resolve_device_count`; or options contradict each other.
    """
    if rank_info().world_size > 1:
        return dict(config)
    launched = launched_rank()
    trainer = _launched_trainer(config["trainer"], launched) if launched else config["trainer"]
    placement, compiles = config.get("placement"), trainer["compile"] != "off"
    if placement and needs_processes(trainer):
        raise UserError("placement splits one model over devices, and trainer=ddp puts a copy on each; use one of them")
    if placement and compiles:
        raise UserError("trainer.compile compiles for one device, and placement names several; leave one out")
    if compiles and config.get("accel") == "off":
        raise UserError("trainer.compile compiles, and accel=off compiles nothing; leave one out")
    return {**config, "trainer": resolve_device_count(trainer)}


def _launched_trainer(trainer: Mapping[str, Any], launched: RankInfo) -> dict[str, Any]:
    """The trainer's parameters with the numbers of processes and machines that a launcher has started."""
    devices, nodes = launched.local_world_size, launched.world_size // launched.local_world_size
    started = f"{count_phrase(devices, 'rank')} on each of {count_phrase(nodes, 'machine')}"
    for name, right in (("devices", (None, devices)), ("num_nodes", (1, nodes))):
        if trainer[name] not in right:
            written = f"trainer.{name}={trainer[name]}"
            raise UserError(f"{written}, but {launched.launcher} started {started}; leave it out and use trainer=ddp")
    if launched.launcher == "srun" and trainer["accelerator"] != "cpu" and torch.cuda.device_count() == 1 < devices:
        raise UserError(
            f"srun shows one GPU to each of the {devices} tasks on this machine; show all to each: --gpus-per-node="
            f"{devices} --gpu-bind=none instead of --gpus-per-task"
        )
    return {**trainer, "devices": devices, "num_nodes": nodes}


def resolve_device_count(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's parameters with the number of visible GPUs where ``devices`` is left open.

    Raises:
        UserError: there are too few GPUs, or none, or their number is unknown; or the precision needs one.
    """
    accelerator, devices, has_several = trainer["accelerator"], trainer["devices"], needs_processes(trainer)
    gpus = 0 if accelerator == "cpu" else torch.cuda.device_count()
    if accelerator == "gpu" and not gpus:
        raise UserError("trainer.accelerator=gpu: no GPU is available; use auto or cpu")
    if trainer["precision"] == "16-mixed" and not gpus:
        raise UserError("trainer.precision=16-mixed is for GPUs, and the run trains on a CPU; bf16-mixed is for both")
    if devices is None and not gpus:
        raise UserError("trainer.devices: no GPU is available; say how many processes: trainer.devices=2")
    if gpus and has_several and (devices or 0) > gpus:
        raise UserError(
            f"trainer.devices={devices}: only {gpus} GPUs are available; use as many, or trainer.accelerator=cpu"
        )
    return {**trainer, "devices": devices or gpus}


def training_device(trainer: Mapping[str, Any]) -> torch.device:
    """The device that this process trains on."""
    has_gpu = trainer["accelerator"] != "cpu" and torch.cuda.is_available()
    return torch.device("cuda", rank_info().local_rank) if has_gpu else torch.device("cpu")


def rank_infos(trainer: Mapping[str, Any]) -> list[RankInfo]:
    """The ranks of the processes to start on this machine, by the resolved parameters of the trainer.

    Raises:
        UserError: there are several machines, and the environment does not say which one this is, or where they meet.
    """
    nodes, node_rank, init_method = trainer["num_nodes"], 0, ""
    if nodes > 1:
        written, meeting_point = os.environ.get("NODE_RANK", os.environ.get("SLURM_NODEID", "")), _meeting_point()
        if not written.isdecimal() or meeting_point is None:
            raise UserError(
                f"trainer.num_nodes={nodes}: start the command once on each machine, by srun --ntasks-per-node=1, or "
                "with NODE_RANK (0, 1, ...), MASTER_ADDR and MASTER_PORT in its environment"
            )
        node_rank, init_method = int(written), meeting_point
        if node_rank >= nodes or os.environ.get("SLURM_NNODES", str(nodes)) != str(nodes):
            machines = os.environ.get("SLURM_NNODES", f"{node_rank + 1} or more")
            raise UserError(
                f"trainer.num_nodes={nodes}: the command was started on {machines} machines; use that number"
            )
    processes = trainer["devices"]
    first = RankInfo(
        rank=node_rank * processes,
        world_size=nodes * processes,
        local_world_size=processes,
        node_rank=node_rank,
        backend=_backend(trainer),
        init_method=init_method,
    )
    return [first._replace(rank=first.rank + index, local_rank=index) for index in range(processes)]


def launched_info(trainer: Mapping[str, Any]) -> RankInfo | None:
    """The rank of this process if another launcher has started it and the others, by the resolved parameters.

    Raises:
        UserError: the environment does not say where the processes meet.
    """
    launched = launched_rank()
    if launched is None:
        return None
    init_method = _meeting_point() if launched.launcher == "srun" else ENVIRONMENT
    if init_method is None:
        raise UserError("srun started this process, but SLURM_JOB_ID or SLURM_JOB_NODELIST is missing")
    return launched._replace(backend=_backend(trainer), init_method=init_method)


def _backend(trainer: Mapping[str, Any]) -> str:
    return "nccl" if trainer["accelerator"] != "cpu" and torch.cuda.device_count() else "gloo"


def _meeting_point() -> str | None:
    """The address where all machines meet, from the environment; None if it does not say."""
    job = os.environ.get("SLURM_JOB_ID", "")
    first_host = SLURMEnvironment.resolve_root_node_address(os.environ.get("SLURM_JOB_NODELIST", ""))
    address = os.environ.get("MASTER_ADDR") or first_host
    port = os.environ.get("MASTER_PORT") or (
        str(CLUSTER_PORTS[int(job) % len(CLUSTER_PORTS)]) if job.isdecimal() else ""
    )
    return f"tcp://{address}:{port}" if address and port.isdecimal() else None

"""The GPUs of this machine, and how many of them each job of a sweep gets."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from attnx.errors import UserError
from attnx.files.process import available_cores

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
AUTO = "auto"
LISTED_GPU = re.compile(r"^(\s*).*\(UUID: ((?:GPU|MIG)-[\w/-]+)\)", re.MULTILINE)
NVIDIA_SMI_SECONDS = 30


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, or their MIG devices, by ids that ``CUDA_VISIBLE_DEVICES`` takes.

    torch is not asked: it could start CUDA, after which no process with CUDA can be forked.
    """
    if (listed := os.environ.get(VISIBLE_GPUS)) is not None:
        return [*takewhile(lambda gpu: gpu not in ("", "-1"), map(str.strip, listed.split(",")))]
    try:
        command = ["nvidia-smi", "-L"]
        listing = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SMI_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    gpus: list[str] = []
    for indent, gpu in LISTED_GPU.findall(listing.stdout):
        if indent and gpus and gpus[-1].startswith("GPU-"):
            gpus.pop()  # it is divided into MIG devices, which are listed below it
        gpus.append(gpu)
    return gpus


def count_needed_gpus(config: Mapping[str, Any], available: int) -> int:
    """How many of the available GPUs a job trains on: none, ``trainer.devices``, or those that ``placement`` names."""
    trainer = config["trainer"]
    if trainer["accelerator"] == "cpu":
        return 0
    placed = [re.fullmatch(r"cuda(?::(\d+))?", device) for device in config.get("placement", {}).values()]
    devices = available if trainer["devices"] is None else trainer["devices"]
    return min(max([devices, *(int(match[1] or 0) + 1 for match in placed if match)]), available)


def choose_gpus(gpus: Sequence[str], in_use: Iterable[Sequence[str]], count: int) -> list[str]:
    """The GPUs that the fewest running jobs have, of equals the first."""
    jobs = Counter(gpu for group in in_use for gpu in group)
    return sorted(gpus, key=jobs.__getitem__)[:count]


def count_parallel_jobs(jobs: int | str, configs: Iterable[Mapping[str, Any]], gpus: Sequence[str]) -> int:
    """How many jobs run at a time with ``-j N`` or ``-j auto``: as many as there are GPUs for, else one a core.

    Raises:
        UserError: jobs that need several GPUs each would share them.
    """
    needed = max((count_needed_gpus(config, len(gpus)) for config in configs), default=0)
    if jobs == AUTO:
        return len(gpus) // needed if needed else available_cores()
    parallel = int(jobs)
    if needed > 1 < parallel and parallel * needed > len(gpus):
        several = f"{jobs} jobs with {needed} GPUs each need {parallel * needed}, and {len(gpus)} are visible"
        raise UserError(f"-j {jobs}: {several}; use -j {len(gpus) // needed} or fewer")
    return parallel

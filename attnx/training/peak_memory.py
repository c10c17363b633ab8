"""Peak memory of the process, and of its GPU."""

from __future__ import annotations

import sys

import torch

BYTES_PER_MEGABYTE = 1e6


def peak_memory() -> dict[str, float]:
    """Peak megabytes of the process so far, imports included, by their names in results.json.

    ``peak_memory_mb`` is the resident memory, where the system reports it; ``peak_gpu_memory_mb`` torch's on the GPU.
    """
    megabytes: dict[str, float] = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        megabytes["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / BYTES_PER_MEGABYTE
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        megabytes["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() / BYTES_PER_MEGABYTE
    return megabytes

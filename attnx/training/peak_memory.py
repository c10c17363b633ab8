"""How much memory a process has needed at most: its own, and a GPU's if it used one."""

from __future__ import annotations

import sys

import torch

MEGABYTE = 1e6


def peak_memory() -> dict[str, float]:
    """Megabytes, by their names in results.json: of the whole process so far, imports included.

    ``peak_memory_mb`` is what was resident, where the system tells; ``peak_gpu_memory_mb`` what torch held of the GPU.
    """
    found: dict[str, float] = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        found["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() / MEGABYTE
    return found

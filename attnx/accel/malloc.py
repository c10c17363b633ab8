"""Let the C library keep the memory that tensors give back, instead of asking the system for it at every step."""

from __future__ import annotations

import ctypes
import os

# <malloc.h> of glibc: memory at the end of the heap is given back, and large blocks are mapped, from so many bytes on.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
NEVER, LARGEST = 2**31 - 1, 2**25


def keep_freed_memory() -> bool:
    """Ask for it; the operating system otherwise clears the same pages anew at every step.

    Whoever set one of glibc's ``MALLOC_..._THRESHOLD_`` variables has chosen for themselves.

    Returns:
        whether it was granted; there are C libraries that know no such thing.
    """
    if any(name.startswith("MALLOC_") and name.endswith("_THRESHOLD_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, NEVER))

"""Let the C library keep the memory of freed tensors, instead of requesting it from the system at every step."""

from __future__ import annotations

import ctypes
import os

# <malloc.h> of glibc: memory at the end of the heap is given back, and large blocks are mapped, from so many bytes on.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
NEVER, LARGEST = 2**31 - 1, 2**25


def keep_freed_memory() -> bool:
    """Keep freed memory, whose pages the operating system would otherwise clear at every step; whether it worked.

    A user's setting of glibc's ``MALLOC_..._THRESHOLD_`` variables is left as it is. Other C libraries cannot do it.
    """
    if any(name.startswith("MALLOC_") and name.endswith("_THRESHOLD_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, NEVER))

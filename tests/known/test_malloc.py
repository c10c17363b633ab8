"""glibc keeps freed memory for reuse."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
from attnx.accel.malloc import keep_freed_memory
kept = keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        block = bytearray(16 * 2**20)
        del block
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(kept, faults)
"""
BLOCKS, PAGES = 20, 16 * 2**20 // 4096


def faults(**environment: str) -> tuple[str, int]:
    """Whether freed memory is kept, and the page faults of touching twenty blocks one after another."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env={**environ, **environment}, capture_output=True, text=True, check=True
    )
    retained, count = done.stdout.split()
    return retained, int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_freed_pages_are_reused() -> None:
    retained, count = faults()
    assert retained == "True"
    assert count < PAGES


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_thresholds_of_the_environment_win() -> None:
    """Blocks that are mapped one by one are cleared one by one."""
    retained, count = faults(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")
    assert retained == "False"
    assert count > BLOCKS

"""Compile what a run will call in C while the rest of the run is still being imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

from attnx import registry
from attnx.accel import c_build

INSTEAD = "what would be in C is computed by torch"
COST = "training takes about a quarter longer"
CURE = "install gcc or clang (Debian, Ubuntu: apt install gcc libc6-dev; macOS: xcode-select --install)"
# Told here, as to import their modules takes torch.
LSTM, READS = (Path(__file__).parent / name for name in ("lstm/lstm.c", "attention/softmax_cpu.c"))


def compile_ahead(config: Mapping[str, Any]) -> None:
    """Start compiling, beside whatever comes next, the C files that may serve a configuration.

    Nobody waits for one unless it is needed before it is there.
    """
    for source in _sources(config):
        Thread(target=c_build.compile_ahead, args=[source]).start()


def without_c(config: Mapping[str, Any]) -> str | None:
    """Why what a run could have in C it does not have, what that costs and what to do, in a line; None if it has it.

    It waits for the C files to be compiled.
    """
    sources = list(_sources(config))
    if not sources:
        return None
    if refusal := c_build.refusal():
        return f"none is used ({refusal}): {INSTEAD}"
    failure = next(filter(None, map(c_build.failure, sources)), None)
    return None if failure is None else f"{failure}: {INSTEAD}, and {COST}; {CURE}"


def _sources(config: Mapping[str, Any]) -> Iterator[Path]:
    """Those of its recurrence, of softmax, and of its kernels, each of which declares its file as ``source``."""
    if config.get("accel", "auto") == "off":
        return
    if any(isinstance(group, Mapping) and group.get("cell") == "lstm" for group in config.values()):
        yield LSTM
    if config["attention"].get("name") == "none":
        return
    yield READS
    scorer = config.get("scorer", {}).get("name")
    for name in registry.names("kernel"):
        kernel = registry.describe("kernel", name)
        if "source" in kernel.properties and scorer in kernel.properties["scorers"]:
            yield kernel.file.with_name(kernel.properties["source"])

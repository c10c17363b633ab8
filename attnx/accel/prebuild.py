"""Compile the C files of a run in background threads while the run's other modules are imported."""

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
# A path, because importing the module that uses it would import torch.
LSTM = Path(__file__).parent / "lstm" / "lstm.c"


def start_compiling(config: Mapping[str, Any]) -> None:
    """Compile the C files that a configuration may use, each in a background thread."""
    for source in _sources(config):
        Thread(target=c_build.compile_into_cache, args=[source]).start()


def without_c(config: Mapping[str, Any]) -> str | None:
    """Why a run's C files cannot be used, the cost and the remedy, in one line; None if they can.

    Waits for the compiler.
    """
    sources = list(_sources(config))
    if not sources:
        return None
    if reason := c_build.unsupported_platform():
        return f"none is used ({reason}): {INSTEAD}"
    failure = next(filter(None, (c_build.compile_library(source).failure for source in sources)), None)
    return None if failure is None else f"{failure}: {INSTEAD}, and {COST}; {CURE}"


def _sources(config: Mapping[str, Any]) -> Iterator[Path]:
    """The C files of the recurrence, and of the kernels, which declare theirs as ``source``."""
    if config.get("accel", "auto") == "off":
        return
    if any(isinstance(group, Mapping) and group.get("cell") == "lstm" for group in config.values()):
        yield LSTM
    if config.get("attention", {}).get("name", "none") == "none":
        return
    scorer = config.get("scorer", {}).get("name")
    for name in registry.names("kernel"):
        kernel = registry.describe("kernel", name)
        if "source" in kernel.declarations and scorer in kernel.declarations["scorers"]:
            yield kernel.file.with_name(kernel.declarations["source"])

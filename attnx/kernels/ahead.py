"""Compile what a run's kernels will call while the rest of the run is still being imported."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import Any

from attnx import compiled, registry


def compile_ahead(config: Mapping[str, Any]) -> None:
    """Start compiling, beside whatever comes next, the C files of the kernels that may serve a configuration.

    A kernel states its file as ``source``. Nobody waits for it unless a read needs it before it is there.
    """
    if config["attention"].get("kernels", "off") == "off":
        return
    scorer = config.get("scorer", {}).get("name")
    for name in registry.names("kernel"):
        kernel = registry.part("kernel", name)
        if "source" in kernel.declares and scorer in kernel.declares["scorers"]:
            Thread(target=compiled.compile_ahead, args=[kernel.file.with_name(kernel.declares["source"])]).start()

"""The JSON file of a benchmark: its options, the machine, the results."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def record(
    out: Path, options: Mapping[str, Any], measurements: Mapping[str, Any], packages: Sequence[str] = ("torch",)
) -> None:
    """Write it, with the versions of the relevant packages, and print where."""
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}
    contents = {
        "options": dict(options),
        "machine": machine | {name: version(name) for name in packages},
        **measurements,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")

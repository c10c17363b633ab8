"""What a benchmark leaves behind: a JSON file of what was asked, on which machine, and what was found."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def record(out: Path, asked: Mapping[str, Any], found: Mapping[str, Any], packages: Sequence[str] = ("torch",)) -> None:
    """Write it, with the versions of the packages that matter."""
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}
    contents = {"asked": dict(asked), "machine": machine | {name: version(name) for name in packages}, **found}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")

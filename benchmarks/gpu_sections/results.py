"""The file of one measurement: the machine and all rows, written again after every case."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
from peers.environments import ROOT

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from gpu_sections.cases import Row

PACKAGES = ("torch", "triton", "lightning")
MACHINE_KEYS = ("card", "torch", "commit", "date")
"""What a file must say of its machine."""


class Results(NamedTuple):
    """What was measured in one call of the program."""

    machine: Mapping[str, str]
    is_check: bool
    rows: Sequence[Row]

    def write(self, file: Path) -> None:
        """Replace the file; a process that is killed meanwhile leaves the old one."""
        rows = [row._asdict() for row in self.rows]
        write_json(file, {"machine": dict(self.machine), "is_check": self.is_check, "rows": rows})

    def add(self, row: Row) -> Results:
        """These results and one more row."""
        return self._replace(rows=[*self.rows, row])


def read_results(file: Path) -> Results:
    """Read a file that the program wrote.

    Raises:
        UserError: it is another file.
    """
    try:
        contents = json.loads(file.read_text(encoding="utf-8"))
        results = Results(contents["machine"], contents["is_check"], [Row(**row) for row in contents["rows"]])
        missing = [key for key in MACHINE_KEYS if not results.machine[key]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: not a file of benchmarks/gpu.py ({error!r})") from error
    if missing:
        raise UserError(f"{file}: it does not say its {missing[0]}")
    return results


def describe_machine(commit: str | None) -> dict[str, str]:
    """The card, the versions, and the commit of the repository.

    Raises:
        UserError: the commit is neither given nor that of a checkout.
    """
    commit = commit or first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"])
    if not commit:
        raise UserError("this copy of the repository has no history; name its commit by --commit")
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return {
        "card": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "driver": first_line(query),
        "cuda": torch.version.cuda or "",
        **{name: version(name) for name in PACKAGES if importlib.util.find_spec(name)},
        "python": platform.python_version(),
        "cpus": str(os.cpu_count()),
        "commit": commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def first_line(command: Sequence[str]) -> str:
    """The first line that a command prints; empty if it fails."""
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return printed.partition("\n")[0]

"""Runs the command, kills it with its child processes, and reads the result of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import torch

from attnx.files.bounded_files import read_mapping


def attnx(*words: str) -> list[str]:
    return [sys.executable, "-m", "attnx", *words]


def command_seconds(*words: str) -> float:
    """Seconds of an undisturbed command."""
    began = time.monotonic()
    subprocess.run(attnx(*words), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def start(*words: str, output: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start the command in a session of its own, without the terminal's Ctrl-C; its output goes into a file."""
    return subprocess.Popen(attnx(*words), stdout=output, stderr=subprocess.STDOUT, start_new_session=True)


def kill(process: subprocess.Popen[bytes], with_descendants: bool) -> None:
    """Kill a command, alone or with all its child processes, and wait for it."""
    for number in [process.pid, *(descendants(process.pid) if with_descendants else [])]:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def descendants(number: int) -> Iterator[int]:
    """The child processes of a process, and theirs."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            child, parent = int(stat.parent.name), int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(child)
    numbers = [number]
    for parent in numbers:
        numbers += parents.get(parent, [])
    yield from numbers[1:]


def done(folder: Path) -> bool:
    """Whether a run is finished and has its README."""
    return read_mapping(folder / "run.json").get("status") == "finished" and (folder / "README.md").is_file()


def weights(folder: Path, which: str = "last") -> tuple[int, dict[str, bytes]]:
    """The step and the weights of a checkpoint, byte by byte."""
    state: dict[str, Any] = torch.load(folder / "checkpoints" / f"{which}.ckpt", map_location="cpu", weights_only=True)
    return state["global_step"], {name: weight.numpy().tobytes() for name, weight in state["state_dict"].items()}

"""A peer's virtual environment: an existing one, or a new one made from its package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]

UNUSED = ("torchvision", "torchaudio")
"""What a peer draws in and never uses; a build that does not fit the installed torch breaks its import."""


class FailedError(Exception):
    """A library that cannot be installed or measured, in one line."""


@dataclass(frozen=True)
class Peer:
    """A package to compare with; ``peers/NAME_speed.py`` and similar scripts measure it."""

    name: str
    version: str
    also: tuple[str, ...] = ()
    """What it imports and does not declare."""

    @property
    def row(self) -> str:
        """Its name in the tables."""
        return f"{self.name} {self.version}"

    def script(self, work: str) -> Path:
        """The script for its interpreter: ``speed`` of training, ``training`` alone or ``decoding``."""
        return Path(__file__).with_name(f"{self.name}_{work}.py")


PEERS = (Peer("yoyodyne", "0.5.27"), Peer("joeynmt", "2.3.0", also=("importlib_metadata",)))


def run(command: Sequence[str | Path], folder: Path, threads: int = 1, limit: float | None = None) -> str:
    """Run a command without a GPU on a number of CPU threads and return its standard output.

    Raises:
        FailedError: it cannot be started, takes longer than ``limit`` seconds or fails.
    """
    count = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    alone = {"CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "disabled"}
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=os.environ | count | alone,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{program} took longer than {limit:g} seconds") from error
    except OSError as error:
        raise FailedError(f"{program} cannot be started: {error.strerror}") from error
    if done.returncode:
        raise FailedError(last_word(done.stderr) or f"{program} ended with exit code {done.returncode}")
    return done.stdout


def last_word(stderr: str) -> str:
    """The line of an error output that names the cause: pip's last ``ERROR`` line, or the last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1]


def install(peer: Peer, envs: Path) -> Path:
    """Return the interpreter of the peer's environment in the folder ``envs``; create it if needed.

    Raises:
        FailedError: pip cannot install the peer.
    """
    envs = envs.resolve()
    envs.mkdir(parents=True, exist_ok=True)
    python = envs / peer.name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _installed(python, peer.name) == peer.version:
        return python
    run([sys.executable, "-m", "venv", envs / peer.name], ROOT)
    pin, constraint = _torch_pin(), envs / "torch.txt"
    constraint.write_text(f"{pin}\n", encoding="utf-8")
    pip: list[str | Path] = [python, "-m", "pip"]
    run([*pip, "install", "-c", constraint, pin, f"{peer.name}=={peer.version}", *peer.also], ROOT)
    misfits = [package for package in UNUSED if _installed(python, package) and not _imports(python, package)]
    if misfits:
        run([*pip, "uninstall", "--yes", *misfits], ROOT)
    return python


def find(peers: Sequence[Peer], envs: Path, console: Console) -> tuple[dict[Peer, Path], dict[str, str]]:
    """The interpreters of peers, installed if needed; and by row, why one cannot be installed."""
    pythons: dict[Peer, Path] = {}
    problems: dict[str, str] = {}
    for peer in peers:
        try:
            with console.status(f"{peer.row}: looking for it, installing it if need be"):
                pythons[peer] = install(peer, envs)
        except FailedError as error:
            problems[peer.row] = f"cannot be installed: {error}"
    return pythons, problems


def _torch_pin() -> str:
    # The project's torch, so that all compute with the same one. Only this pin: others may clash.
    constraints = ROOT / "constraints.txt"
    lines = constraints.read_text(encoding="utf-8").splitlines() if constraints.exists() else []
    return next((line.split()[0] for line in lines if line.startswith("torch==")), "torch==2.13.0")


def _installed(python: Path, package: str) -> str | None:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    try:
        return run([python, "-c", code], ROOT).strip()
    except FailedError:
        return None


def _imports(python: Path, package: str) -> bool:
    try:
        run([python, "-c", f"import {package}"], ROOT)
    except FailedError:
        return False
    return True

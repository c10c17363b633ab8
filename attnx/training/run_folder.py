"""Creates a run folder, and writes its vocabularies."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.runs.layout import (
    CHECKPOINTS,
    CONFIG,
    FORMAT,
    RUN,
    SOURCE_FEATURES,
    SOURCE_SYMBOLS,
    TAGS,
    TARGET_FEATURES,
    TARGET_SYMBOLS,
    VOCABULARY,
)
from attnx.runs.naming import RUNS, chosen_folder
from attnx.runs.plugin_copies import copy_plugins
from attnx.runs.status import RunStatus
from attnx.tasks.contract import SequenceData, SequenceTask
from attnx.version import __version__

PACKAGES = ("torch", "lightning", "hydra-core", "omegaconf", "torchmetrics", "numpy")


def create_run_folder(config: Mapping[str, Any], overrides: Sequence[str], facts: Mapping[str, Any]) -> Path:
    """Create a run folder with its configuration and provenance.

    Args:
        config: plain; ``folder`` or ``name`` names the folder, else it is ``multirun/runs/TIME-HASH``.
        overrides: of the command.
        facts: derived from the configuration (schedule, sizes), for run.json.

    Raises:
        UserError: the folder is not empty, or cannot be written.
    """
    text = yaml.safe_dump({key: value for key, value in config.items() if key != "folder"}, sort_keys=False)
    folder = chosen_folder(config) or _new_folder(text)
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(text, encoding="utf-8")
        copies = copy_plugins(folder, config)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the run folder ({error.strerror}); choose folder=...") from error
    info = {
        "format": FORMAT,
        "name": config["name"],
        "status": RunStatus.RUNNING,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": " ".join(["attnx", *overrides]),
        "overrides": list(overrides),
        "versions": _versions(),
        "git": _git_state(),
        **copies,
        **facts,
    }
    write_json(folder / RUN, info)
    return folder


def save_vocabularies(folder: Path, data: SequenceData, task: SequenceTask) -> None:
    """Write the vocabulary or features of each side, the tags if there are any, and what the task adds."""
    (folder / VOCABULARY).mkdir(exist_ok=True)
    for side, symbols, features in (
        (data.source, SOURCE_SYMBOLS, SOURCE_FEATURES),
        (data.target, TARGET_SYMBOLS, TARGET_FEATURES),
    ):
        side.save(folder / VOCABULARY / (symbols if isinstance(side, Vocabulary) else features))
    if data.tags:
        write_json(folder / VOCABULARY / TAGS, data.tags)
    task.save(folder / VOCABULARY)


def _new_folder(text: str) -> Path:
    """A unique folder name: the time, and a hash of the configuration and this process."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    token = hashlib.sha256(f"{text}{os.getpid()}{time.time_ns()}".encode()).hexdigest()[:6]
    return RUNS / f"{stamp}-{token}"


def _versions() -> dict[str, str]:
    versions = {"attnx": __version__, "python": platform.python_version()}
    return versions | {package: metadata.version(package) for package in PACKAGES}


def _git_state() -> dict[str, Any]:
    """The commit of the code, and whether files are changed; empty outside a repository."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}

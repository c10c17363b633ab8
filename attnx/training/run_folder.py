"""Creates a run folder, and writes its vocabularies."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import yaml

from attnx.accel.c_build import without_c
from attnx.errors import UserError
from attnx.files.atomic_files import write_json, write_text
from attnx.files.parse_number import count_phrase
from attnx.files.process import available_cores, read_cpuinfo
from attnx.runs.info import RunStatus
from attnx.runs.layout import (
    CHECKPOINTS,
    CONFIG_YAML,
    FORMAT,
    RUN_JSON,
    RUNS,
    TAGS,
    VOCABULARY,
    chosen_folder,
    config_dir_words,
)
from attnx.runs.plugin_copies import copy_plugins
from attnx.runs.run import lock_run
from attnx.training.distributed.devices import training_device
from attnx.training.distributed.process_group import rank_info
from attnx.training.distributed.slurm import slurm_job
from attnx.training.train import PreparedRun
from attnx.version import __version__

PACKAGES = ("torch", "lightning", "hydra-core", "omegaconf", "torchmetrics", "numpy")
MAX_NOTES = 5
# Folders whose uncommitted changes are recorded as `git.changed`; plug-ins have digests of their own.
CODE = ("attnx", "conf")


@contextmanager
def create_run_folder(prepared: PreparedRun, overrides: Sequence[str], config_dir: str | None = None) -> Iterator[Path]:
    """Create a run folder with its configuration and provenance, and hold its lock.

    The configuration's ``folder`` or ``name`` names the folder, else it is ``multirun/runs/TIME-HASH``.

    Raises:
        UserError: the folder is not empty, another process trains in it, or it cannot be written.
    """
    config = prepared.config
    text = yaml.safe_dump({key: value for key, value in config.items() if key != "folder"}, sort_keys=False)
    # A unique name: the time, and a hash of the configuration and this process.
    token = hashlib.sha256(f"{text}{os.getpid()}{time.time_ns()}".encode()).hexdigest()[:6]
    folder = chosen_folder(config) or RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-{token}"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_run(folder))
            chosen_folder(config)  # another process may have filled it meanwhile
            (folder / CHECKPOINTS).mkdir(exist_ok=True)
            write_text(folder / CONFIG_YAML, text)
            copies = copy_plugins(folder, config)
        except OSError as error:
            raise UserError(f"{folder}: cannot write the run folder ({error.strerror}); choose folder=...") from error
        versions = {"attnx": __version__, "python": platform.python_version()}
        info = {
            "format": FORMAT,
            "name": config["name"],
            "status": RunStatus.RUNNING,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": shlex.join(["attnx", *config_dir_words(config_dir), *overrides]),
            "overrides": list(overrides),
            "versions": versions | {package: metadata.version(package) for package in PACKAGES},
            "git": git_state(),
            "machine": describe_machine(training_device(prepared.config["trainer"])),
            **copies,
            **_derived_facts(prepared),
        }
        write_json(folder / RUN_JSON, info)
        yield folder


def describe_machine(device: torch.device) -> str:
    """The processor, how many of its cores this process may use, and the GPUs, if one trains; no name of a host."""
    processor = read_cpuinfo().get("model name") or platform.processor() or platform.machine()
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    gpus = [torch.cuda.get_device_name(index) for index in range(count)]
    counts = [f"{gpus.count(name)} {name}" for name in dict.fromkeys(gpus)]
    return ", ".join([f"{count_phrase(available_cores(), 'core')} of {processor}", *counts])


def _derived_facts(prepared: PreparedRun) -> dict[str, Any]:
    """Values derived from the configuration and the data, for the start table and run.json; none is empty."""
    config, module, processes = prepared.config, prepared.module, rank_info().world_size
    summary = {"derived": "", **prepared.resolved.summary()}
    on_cpu = training_device(config["trainer"]).type == "cpu"
    project: Any = getattr(getattr(module.model, "attention", None), "project", None)
    if hasattr(project, "in_features"):
        sizes = f"projection={project.in_features}->{project.out_features} (the scorer needs equal widths)"
        summary["derived"] = f"{summary['derived']} {sizes}".strip()
    data, pairs, samples = prepared.data, prepared.data.pairs, prepared.loaders.data.pairs
    counts = (
        f"{len(pairs.train) or len(prepared.loaders.train_rows):,} train",
        f"{_sample_size(samples.valid, pairs.valid)} valid",
        f"{_sample_size(samples.test, pairs.test)} test",
    )
    tags = f"; tags {' '.join(data.tags)}" if data.tags else ""
    cost = prepared.cost
    # Of a training token by part, and of a decoded one by context; or why they are unknown.
    flops = {"train": {part: round(count) for part, count in cost.train_parts.items()}, "decode": cost.decode_flops}
    facts: dict[str, Any] = {
        **summary,
        "output_limit": prepared.module.predictor.limit_text,
        "initialized": prepared.initialized,
        "kernels": prepared.kernels,
        "compiler": without_c(config) if on_cpu else None,
        "compiled": prepared.compiled,
        "monitor": module.task.monitor,
        "maximize": module.task.maximize,
        **prepared.loaders.fingerprints,
        **task_notes(prepared),
        "placement": {part: str(device) for part, device in prepared.devices.items()},
        "processes": processes if processes > 1 else None,
        "slurm_job": slurm_job(),
        "parameters": prepared.parameters,
        "flops": {"note": cost.note} if cost.note else {name: count for name, count in flops.items() if count},
        "data": f"{', '.join(counts)}; source {data.source}, target {data.target}{tags}",
    }
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def task_notes(prepared: PreparedRun) -> dict[str, Any]:
    """The notes on data, decoding and metrics, and the signatures of metrics, if there are any."""
    notes = [*prepared.notes]  # the most important come first
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES - 1 :] = [f"and {len(notes) - MAX_NOTES + 1} further notes, of less weight"]
    facts = {
        "notes": notes,
        "signatures": prepared.module.task.signatures(prepared.module.test_metrics),
    }
    return {name: value for name, value in facts.items() if value}


def _sample_size(sample: Sequence[Any], part: Sequence[Any]) -> str:
    """The number of examples, and of how many if it is a sample."""
    return f"{len(sample):,}" + (f" of {len(part):,}" if len(sample) < len(part) else "")


def save_vocabularies(folder: Path, prepared: PreparedRun) -> None:
    """Write the vocabulary or features of each side, the tags if there are any, and what the task adds."""
    data = prepared.data
    (folder / VOCABULARY).mkdir(exist_ok=True)
    data.save_sides(folder / VOCABULARY)
    if data.tags:
        write_json(folder / VOCABULARY / TAGS, data.tags)
    prepared.module.task.save(folder / VOCABULARY)


def git_state() -> dict[str, Any]:
    """The commit of the code, and whether its files are changed; empty outside a repository."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain=v2", "--branch", "--", *CODE]
    if not (root / ".git").exists():
        return {}
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {}
    commit = next(line.split()[-1] for line in lines if line.startswith("# branch.oid"))
    return {"commit": commit, "changed": any(not line.startswith("#") for line in lines)}

"""Creates and fills a run folder; :mod:`attnx.run_format` names what lies in it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.metrics.closest import closest
from attnx.run_format import ALIGNMENTS, CHECKPOINTS, CONFIG, FORMAT, PREDICTIONS, RESULTS, RUN, VOCABULARY
from attnx.tasks.protocols import SequenceData, SequenceTask
from attnx.training.experiment import Prediction
from attnx.version import __version__

PACKAGES = ("torch", "lightning", "hydra-core", "omegaconf", "torchmetrics", "numpy")
END = "</s>"


def create(config: Mapping[str, Any], overrides: Sequence[str], facts: Mapping[str, Any]) -> Path:
    """Make a new run folder with its configuration and provenance.

    Args:
        config: plain; ``config["folder"]`` names the folder, else it is ``multirun/runs/TIME-HASH``.
        overrides: what the user asked for.
        facts: what was worked out of it (schedule, sizes), to explain the run later.

    Raises:
        UserError: the folder holds something already, or cannot be written.
    """
    text = yaml.safe_dump(_clean(config), sort_keys=False)
    folder = Path(config["folder"]) if config["folder"] else _fresh(text)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"folder={folder}: it is not empty; choose another, or `attnx resume {folder}`")
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder}: cannot write the run folder ({error.strerror}); choose folder=...") from error
    info = {
        "format": FORMAT,
        "name": config["name"],
        "status": "running",
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": " ".join(["attnx", *overrides]),
        "overrides": list(overrides),
        "versions": _versions(),
        "git": _git(),
        **facts,
    }
    write_json(folder / RUN, info)
    return folder


def note(folder: Path, **facts: Any) -> None:
    """Add to what ``run.json`` says."""
    info = json.loads((folder / RUN).read_text(encoding="utf-8"))
    write_json(folder / RUN, {**info, **facts})


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def save_vocabularies(folder: Path, data: SequenceData, task: SequenceTask) -> None:
    """Write what maps symbols to numbers.

    ``vocabulary/source.json`` (or ``features.json``) and ``target.json``, ``tags.json`` if there are tags, and what the
    task adds.
    """
    (folder / VOCABULARY).mkdir(exist_ok=True)
    source = "source.json" if isinstance(data.source, Vocabulary) else "features.json"
    data.source.save(folder / VOCABULARY / source)
    data.target.save(folder / VOCABULARY / "target.json")
    if data.tags:
        write_json(folder / VOCABULARY / "tags.json", data.tags)
    task.save(folder / VOCABULARY)


def save_results(folder: Path, results: Mapping[str, float]) -> None:
    """Write ``results.json``; what could not be measured (a language without test words) is null."""
    write_json(folder / RESULTS, {name: None if math.isnan(value) else value for name, value in results.items()})


def save_predictions(folder: Path, predictions: Sequence[Prediction]) -> None:
    """Write ``predictions.tsv``: source, prediction, references, edits to the closest, log-probability, any tag."""
    tagged = any(one.pair.tag for one in predictions)
    lines = ["source\tprediction\treferences\tedits\tlog_probability" + "\ttag" * tagged]
    for one in predictions:
        edits, _ = closest(one.output, one.pair.references)
        references = " | ".join(" ".join(reference) for reference in one.pair.references)
        fields = [" ".join(one.pair.source), " ".join(one.output), references, str(edits), f"{one.log_probability:.6f}"]
        fields += [one.pair.tag] * tagged
        lines.append("\t".join(fields))
    (folder / PREDICTIONS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def save_alignments(folder: Path, predictions: Sequence[Prediction]) -> None:
    """Write each prediction's weights, with its symbols, to ``alignments/NNN.npz``."""
    (folder / ALIGNMENTS).mkdir(exist_ok=True)
    for number, one in enumerate(predictions):
        if one.weights is not None:
            _, reference = closest(one.output, one.pair.references)
            output = [*one.output, END][: one.weights.shape[-2]]
            read = one.pair.source if one.weights.shape[-1] > one.own else ()
            heads: dict[str, Any] = {"heads": one.weights} if one.weights.ndim == 3 else {}
            np.savez_compressed(
                folder / ALIGNMENTS / f"{number:03d}.npz",
                weights=one.weights.mean(0) if heads else one.weights,
                # A state of the decoder's own goes by what it wrote.
                source=np.array([*read, *output[: one.own]]),
                output=np.array(output),
                reference=np.array(reference),
                own=np.array(one.own),
                **heads,
            )


def _fresh(text: str) -> Path:
    """A folder name that no other run has: the time, and a hash of the configuration and this process."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    token = hashlib.sha256(f"{text}{os.getpid()}{time.time_ns()}".encode()).hexdigest()[:6]
    return Path("multirun") / "runs" / f"{stamp}-{token}"


def _clean(config: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where the run lies: a folder may be moved."""
    return {key: value for key, value in config.items() if key != "folder"}


def _versions() -> dict[str, str]:
    found = {"attnx": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        found[package] = metadata.version(package)
    return found


def _git() -> dict[str, Any]:
    """The state of the repository that the code runs from; empty outside one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}

    def ask(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}

"""Creates and fills a run folder; :mod:`attnx.runs.layout` names what lies in it."""

from __future__ import annotations

import hashlib
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

from attnx import registry
from attnx.data.features import Matrix
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json, read_yaml
from attnx.metrics.aligned_errors import aligned_errors
from attnx.metrics.nearest_reference import nearest_reference
from attnx.models.resolve import resolve
from attnx.runs.layout import (
    ALIGNMENTS,
    CHECKPOINTS,
    CONFIG,
    FORMAT,
    MATRICES,
    PREDICTIONS,
    RESAMPLED,
    RESULTS,
    RUN,
    SOURCE_FEATURES,
    SOURCE_SYMBOLS,
    TAGS,
    TARGET_FEATURES,
    TARGET_SYMBOLS,
    VOCABULARY,
)
from attnx.runs.naming import RUNS, chosen_folder
from attnx.runs.plugin_copies import keep_copies
from attnx.runs.table_fields import write_field, write_symbols
from attnx.tasks.protocols import SequenceData, SequenceTask
from attnx.training.lightning_module import Prediction
from attnx.version import __version__

PACKAGES = ("torch", "lightning", "hydra-core", "omegaconf", "torchmetrics", "numpy")
END = "</s>"
# The columns of predictions.tsv that are there if anything is in them.
MAY_LACK = ("tag", "name", "texts")


def create(config: Mapping[str, Any], overrides: Sequence[str], facts: Mapping[str, Any]) -> Path:
    """Make a new run folder with its configuration and provenance.

    Args:
        config: plain; ``folder`` or ``name`` names the folder, else it is ``multirun/runs/TIME-HASH``.
        overrides: what the user asked for.
        facts: what was worked out of it (schedule, sizes), to explain the run later.

    Raises:
        UserError: the folder holds something already, or cannot be written.
    """
    text = yaml.safe_dump(_clean(config), sort_keys=False)
    folder = chosen_folder(config) or _fresh(text)
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(text, encoding="utf-8")
        kept = keep_copies(folder, config)
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
        **kept,
        **facts,
    }
    write_json(folder / RUN, info)
    return folder


def note(folder: Path, **facts: Any) -> None:
    """Add to what ``run.json`` says."""
    info = read_json(folder / RUN)
    write_json(folder / RUN, {**info, **facts})


def save_vocabularies(folder: Path, data: SequenceData, task: SequenceTask) -> None:
    """Write what maps symbols to numbers.

    ``vocabulary/source.json`` (or ``features.json``) and ``target.json`` (or ``target_features.json``), ``tags.json``
    if there are tags, and what the task adds.
    """
    (folder / VOCABULARY).mkdir(exist_ok=True)
    for side, symbols, features in (
        (data.source, SOURCE_SYMBOLS, SOURCE_FEATURES),
        (data.target, TARGET_SYMBOLS, TARGET_FEATURES),
    ):
        side.save(folder / VOCABULARY / (symbols if isinstance(side, Vocabulary) else features))
    if data.tags:
        write_json(folder / VOCABULARY / TAGS, data.tags)
    task.save(folder / VOCABULARY)


def save_results(folder: Path, results: Mapping[str, float], **sections: Mapping[str, Any]) -> None:
    """Write ``results.json``; what could not be measured is null.

    Behind the numbers stand the ``sections`` that hold anything: intervals, baselines, signatures.
    """
    measured = {name: None if math.isnan(value) else value for name, value in results.items()}
    write_json(folder / RESULTS, {**measured, **{name: held for name, held in sections.items() if held}})


def save_predictions(folder: Path, predictions: Sequence[Prediction]) -> None:
    """Write ``predictions.tsv``, a line each; of matrices also ``predictions.npz``, which holds them.

    Columns ``tag``, ``name`` and ``texts`` stand behind the others where pairs have tags, names, and references as
    they were written.
    """
    matrices: dict[str, Any] = {}
    rows: list[dict[str, str]] = []
    for number, one in enumerate(predictions):
        if (reference := one.pair.target) is None:
            rows.append(_judged_symbols(one))
        else:
            matrices |= {f"prediction_{number}": one.output, f"reference_{number}": reference}
            rows.append(_judged_numbers(one, reference, number))
        rows[-1] |= {
            "tag": write_field(one.pair.tag),
            "name": write_field(one.pair.name),
            "texts": " | ".join(write_symbols(text.split()) for text in one.pair.texts),
        }
    columns = [name for name in rows[0] if name not in MAY_LACK or any(row[name] for row in rows)]
    lines = [columns, *([row[name] for name in columns] for row in rows)]
    (folder / PREDICTIONS).write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    if matrices:
        np.savez_compressed(folder / MATRICES, **matrices)


def save_resampled(folder: Path, drawn: Mapping[str, np.ndarray[Any, np.dtype[np.float64]]]) -> None:
    """Write ``resampled.npz``, each measure of draws of the test's examples, if any could be measured."""
    if drawn:
        np.savez_compressed(folder / RESAMPLED, **drawn)  # type: ignore[arg-type]


def _judged_symbols(one: Prediction) -> dict[str, str]:
    edits, _ = nearest_reference(one.output, one.pair.references)
    return {
        "source": write_symbols(one.pair.source),
        "prediction": write_symbols(one.output),
        "references": " | ".join(map(write_symbols, one.pair.references)),
        "edits": str(edits),
        "log_probability": f"{one.log_probability:.6f}",
    }


def _judged_numbers(one: Prediction, reference: Matrix, number: int) -> dict[str, str]:
    # Of several quantiles the median stands first.
    error = aligned_errors([one.output[:, : reference.shape[1]]], [reference])
    return {
        "source": write_symbols(one.pair.source),
        "prediction": f"prediction_{number}",
        "reference": f"reference_{number}",
        "steps": str(len(one.output)),
        "reference_steps": str(len(reference)),
        "mean_absolute_error": f"{np.abs(error).mean():.6g}",
        "root_mean_squared_error": f"{np.sqrt(np.square(error).mean()):.6g}",
        "log_probability": f"{one.log_probability:.6f}",
    }


def save_alignments(
    folder: Path, predictions: Sequence[Prediction], of_itself: Mapping[int, Mapping[str, Any]] | None = None
) -> None:
    """Write each prediction's weights, with its symbols or the names of its steps, to ``alignments/NNN.npz``.

    What a search found beside it, best first, goes to ``NNN-2.npz``, ``NNN-3.npz``, and so on. With the best one goes
    what streams read ``of_itself``, of those that have it by their numbers.
    """
    (folder / ALIGNMENTS).mkdir(exist_ok=True)
    config = folder / CONFIG
    # The place in the model that each head belongs to; none where attention has one place.
    held = read_yaml(config) if config.is_file() else {}
    resolved = resolve(held) if held else None
    sites, streams = getattr(resolved, "sites", ()), getattr(resolved, "self_attention_sites", {})
    is_judged = not (held and registry.describe("task", held["task"]["name"]).properties.get("continues"))
    for number, best in enumerate(predictions):
        for rank, one in enumerate((best, *best.others), start=1):
            if one.weights is not None:
                name, arrays = f"{number:03d}" + (f"-{rank}" if rank > 1 else ""), _arrays(one, one.weights, sites)
                arrays["judged"] = np.array(is_judged)
                for stream, weights in (of_itself or {}).get(number, {}).items() if rank == 1 else ():
                    arrays |= {stream: weights, f"{stream}_sites": np.array(streams[stream])}
                np.savez_compressed(folder / ALIGNMENTS / f"{name}.npz", **arrays)


def _arrays(
    one: Prediction, weights: np.ndarray[Any, np.dtype[np.float32]], sites: Sequence[str] = ()
) -> dict[str, Any]:
    """What an alignment's file holds, ``sites`` naming the place of each head; see docs/pictures.md."""
    output, reference = _labels(one)
    read = one.pair.source if weights.shape[-1] > one.own else ()
    ranked = {"score": one.score, "log_probability": one.log_probability}
    return {
        "weights": weights.mean(0) if weights.ndim == 3 else weights,
        # A state of the decoder's own goes by what it wrote.
        "source": np.array([*read, *output[: one.own]]),
        "output": np.array(output),
        "reference": np.array(reference),
        "own": np.array(one.own),
        "name": np.array(one.pair.name),
        "steps": np.array(one.pair.target is not None),
        **({"heads": weights} if weights.ndim == 3 else {}),
        **({"sites": np.array(sites)} if sites and weights.ndim == 3 else {}),
        **{name: np.array(value) for name, value in ranked.items() if not math.isnan(value)},
    }


def _labels(one: Prediction) -> tuple[list[str], Sequence[str]]:
    """What stands beside each step that was written, and the reference.

    Rows of numbers go by the names of the reference's steps, as far as there are any.
    """
    if one.pair.target is None:
        assert one.weights is not None
        return [*one.output, END][: one.weights.shape[-2]], nearest_reference(one.output, one.pair.references)[1]
    (names,) = one.pair.references
    numbers = range(len(names), len(one.output))
    return [*names, *map(str, numbers)][: len(one.output)], names


def _fresh(text: str) -> Path:
    """A folder name that no other run has: the time, and a hash of the configuration and this process."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    token = hashlib.sha256(f"{text}{os.getpid()}{time.time_ns()}".encode()).hexdigest()[:6]
    return RUNS / f"{stamp}-{token}"


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
    root = Path(__file__).resolve().parents[1]
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

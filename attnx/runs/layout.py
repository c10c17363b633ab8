"""The names of the folders of runs and sweeps, of an evaluation's, and of the files in them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attnx.errors import UserError
from attnx.files.atomic_files import PARTIAL

FORMAT: Final = 1

# What a run is, and its configuration.
RUN_JSON: Final = "run.json"
CONFIG_YAML: Final = "config.yaml"
# Locked, and there, while a process trains the run.
RUN_LOCK: Final = "run.lock"
# What it measured.
METRICS: Final = "metrics.csv"
PROFILE: Final = "profile"
RESULTS: Final = "results.json"
COST: Final = "cost.json"
PREDICTIONS: Final = "predictions.tsv"
MATRICES: Final = "predictions.npz"
RESAMPLED: Final = "resampled.npz"
ALIGNMENTS: Final = "alignments"
ALIGNMENT_STATISTICS: Final = "alignment_statistics.json"
# Pictures and pages drawn from these.
ALIGNMENTS_PICTURE: Final = "alignments.png"
CURVES_PICTURE: Final = "curves.png"
PREDICTIONS_PICTURE: Final = "predictions.png"
PAGE: Final = "page.html"
README: Final = "README.md"  # the last file that a run writes
# The weights.
CHECKPOINTS: Final = "checkpoints"
BEST: Final = "best.ckpt"
LAST: Final = "last.ckpt"
# What encodes and decodes symbols, and kept test data.
VOCABULARY: Final = "vocabulary"
SOURCE_SYMBOLS: Final = "source.json"
TARGET_SYMBOLS: Final = "target.json"
SOURCE_FEATURES: Final = "features.json"
TARGET_FEATURES: Final = "target_features.json"
SIDES: Final = {"source": (SOURCE_SYMBOLS, SOURCE_FEATURES), "target": (TARGET_SYMBOLS, TARGET_FEATURES)}
TAGS: Final = "tags.json"
OUTPUT_LIMIT: Final = "output_limit.json"
BLEU_OPTIONS: Final = "bleu.json"
# Copies of plug-ins, and the loggers' own folders.
PLUGINS: Final = "plugins"
WANDB: Final = "wandb"
TENSORBOARD: Final = "tensorboard"
# A failed run's traceback, and the batch whose loss was not finite.
ERROR_TXT: Final = "error.txt"
BAD_BATCH: Final = "bad_batch.pt"
# Evaluations and exports of a run.
EVALUATIONS: Final = "evaluations"
EVALUATION: Final = "evaluation.json"
EXPORT: Final = "export"
# A sweep's job: its output, and its step while it runs.
LOG_TXT: Final = "log.txt"
PROGRESS: Final = "progress.json"
# Environment variable naming a job's progress file; a run that is no job of a sweep has none.
PROGRESS_VARIABLE: Final = "ATTNX_PROGRESS"
# The sweep's folder: its record and lock, what asks its jobs to end, the seconds of a training step with the lock of
# its measurement, and a search's trials.
SWEEP_JSON: Final = "sweep.json"
SWEEP_LOCK: Final = "sweep.lock"
STEP_TIME: Final = "step_time.json"
STEP_TIME_LOCK: Final = "step_time.lock"
STUDY: Final = "study.db"

# Sections of results.json: 95 % intervals, differences from baselines, and exact definitions of metrics.
INTERVALS: Final = "intervals"
BASELINES: Final = "baselines"
SIGNATURES: Final = "signatures"


def ranked_checkpoint(rank: int) -> str:
    """The checkpoint file of a rank among the best: ``best.ckpt``, ``best-2.ckpt`` ..."""
    return BEST if rank == 1 else f"best-{rank}.ckpt"


SWEEPS = Path("multirun")
RUNS = SWEEPS / "runs"
# File systems allow 255 bytes, encrypted ones 143, and a sweep that is moved away gets a number as suffix.
MAX_NAME_BYTES = 128
# Files allowed in the folder of a new run: the log of a sweep's job, and what a run killed at its start leaves.
ALLOWED_FILES = {LOG_TXT, RUN_LOCK, CONFIG_YAML, CHECKPOINTS, PLUGINS}


def check_name(name: str) -> None:
    """Refuse a ``name=`` that is not one plain path component: its folder must be in ``multirun/``."""
    problems = {
        "is empty, perhaps from an unset variable": not name,
        "contains a path separator": "/" in name or "\\" in name,
        "contains a character that cannot be printed": not name.isprintable(),
        "begins with a dot, or begins or ends with a space": name != name.strip() or name.startswith("."),
        f"is longer than {MAX_NAME_BYTES} bytes": len(name.encode(errors="replace")) > MAX_NAME_BYTES,
        f"{RUNS} is the folder of single runs": name.casefold() == RUNS.name,
    }
    if problem := next((problem for problem, is_true in problems.items() if is_true), ""):
        shown = name if name.isprintable() else repr(name)
        raise UserError(f"name={shown}: {problem}; expected the name of one folder, such as name=scorers")


def refuse_link(folder: Path) -> None:
    """Refuse a link as the folder of a name: its target may be anywhere."""
    if folder.is_symlink():
        raise UserError(f"{folder}: is a link to {folder.readlink()}; choose another name=..., or remove the link")


def chosen_folder(config: Mapping[str, Any]) -> Path | None:
    """The folder of a new run by ``folder=`` or ``name=``; None if neither is set.

    Raises:
        UserError: the folder has no name, is a file, is not empty, or is inside another run's.
    """
    if config["folder"] == "":
        raise UserError("folder= is empty, perhaps from an unset variable; expected the path of a folder")
    if not config["folder"] and not config["name"]:
        return None
    folder, option = Path(config["folder"] or RUNS / config["name"]), "folder" if config["folder"] else "name"
    if str(folder).encode(errors="replace") != os.fsencode(folder):
        raise UserError(f"{option}={config[option]!r}: holds bytes that are no UTF-8; choose another name")
    if option == "name":
        check_name(config["name"])
        refuse_link(folder)
    is_free = folder.is_dir() and all(file.name in ALLOWED_FILES or file.suffix == PARTIAL for file in folder.iterdir())
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{option}={config[option]}: {folder} is a file; choose another")
    if folder.exists() and (not is_free or any(folder.glob(f"{CHECKPOINTS}/*"))):
        subject = "it" if option == "folder" else str(folder)
        hint = f", or `{resume_command(folder)}`" if (folder / RUN_JSON).is_file() else ""
        problem = f"{subject} is not empty; choose another{hint}"
        raise UserError(f"{option}={config[option]}: {problem}")
    if runs := [parent for parent in folder.absolute().parents if (parent / RUN_JSON).is_file()]:
        raise UserError(f"folder={folder}: is inside the folder of another run, {runs[0]}; choose one outside it")
    return folder


def config_dir_words(config_dir: str | None) -> list[str]:
    """The words of a command that name the user's own configuration files, if there are any."""
    return ["--config-dir", config_dir] if config_dir else []


def resume_command(folder: Path, *options: str) -> str:
    """The command that resumes the run or the sweep in a folder.

    >>> resume_command(Path("multirun/my run"))
    "attnx resume 'multirun/my run'"
    """
    return shlex.join(["attnx", "resume", str(folder), *options])


def refuse_links(folder: Path) -> None:
    """Refuse a folder with a link that leads out of it, where nothing may be written."""
    root = folder.resolve()
    for parent, folders, files in os.walk(root):
        for path in (Path(parent, name) for name in (*folders, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise UserError(
                    f"{folder / path.relative_to(root)}: is a link that leads out of {folder}, where nothing may be "
                    "written; replace the link by its target"
                )
        if Path(parent).name == WANDB:
            folders.clear()  # recordings link to W&B's logs; a resumed run begins a new recording

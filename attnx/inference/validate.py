"""Reads a run folder that is to be used, and tells in one line what it lacks for that. Without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.groups import CHOSEN, SCALARS, check_placement, check_scalar
from attnx.errors import UserError, suggest
from attnx.files.bounded_files import read_mapping
from attnx.runs.layout import (
    BEST,
    CHECKPOINTS,
    CONFIG,
    EVALUATION,
    EXPLANATION,
    RUN,
    SOURCE_FEATURES,
    SOURCE_SYMBOLS,
    TARGET_FEATURES,
    TARGET_SYMBOLS,
    VOCABULARY,
)
from attnx.runs.plugin_copies import other_code, refuse_missing
from attnx.runs.run import Run, read_run

AVERAGE = "average"
NEEDED = ("task", "model", "decoding")
TO_TRAIN = (*NEEDED, "optimizer", "lr_schedule", "trainer")
FINISHED = "{}: finished; there is nothing left to do"
SIDES = {"source": (SOURCE_SYMBOLS, SOURCE_FEATURES), "target": (TARGET_SYMBOLS, TARGET_FEATURES)}


def read_whole_run(folder: Path | str, checkpoint: str = "best") -> Run:
    """Read a run folder, its configuration filled in, and see that nothing is missing to open it.

    Args:
        folder: the run folder.
        checkpoint: ``best``, ``last``, or ``average``, the mean of the best that were kept.

    Raises:
        UserError: not a run folder, one of a newer format, half-written, or without vocabulary or checkpoint.
    """
    if not isinstance(folder, str | Path):
        raise UserError(f"{folder!r}: name one run folder; several that answer together are opened by open_ensemble")
    path = Path(folder)
    run = read_configured(path)
    for side, files in SIDES.items():
        if not any((path / VOCABULARY / file).is_file() for file in files):
            raise UserError(f"{path / VOCABULARY / files[0]}: no such file; the run's {side} vocabulary is missing")
    weights_of(path, checkpoint)
    return run


def read_configured(path: Path, needed: Sequence[str] = NEEDED) -> Run:
    """Read a run folder, its configuration filled in, and see that this is whole.

    Args:
        path: the run folder.
        needed: kinds of parts that must be chosen.

    Raises:
        UserError: not a run folder, one of a newer format, or half-written.
    """
    if (path / EVALUATION).is_file():
        raise UserError(f"{path}: is an evaluation; name the run that it lies in, {path.resolve().parents[1]}")
    run = read_run(path)
    if not (path / CONFIG).is_file():
        raise UserError(f"{path}: is half-written (it has no {CONFIG}); start the run anew")
    refuse_missing(run)
    try:
        return run.with_config(_checked(run.config, needed))
    except UserError as error:
        changed = other_code(run)
        raise UserError(f"{path / CONFIG}: {error}" + (f"; {changed}" if changed else "")) from error


def _checked(config: Mapping[str, Any], needed: Sequence[str]) -> dict[str, Any]:
    """A stored configuration, filled in; it holds parts by name, their knobs, and values of their types alone."""
    for kind in needed:
        if kind not in config:
            raise UserError(f"names no {kind}; it is not the whole configuration of a run")
    for key, value in config.items():
        if key not in (*CHOSEN, *SCALARS, "placement"):
            raise UserError(f"{key!r} is no key of a run; take it out")
        if key in CHOSEN and not isinstance(value, Mapping):
            raise UserError(f"{key}: expected a name and knobs, found {value!r}")
        if key in SCALARS:
            check_scalar(key, value)
    check_placement(config.get("placement"))
    return registry.with_defaults(config)


def is_finished(run: Run) -> bool:
    """Whether nothing is left to do of a run; its README is the last file that it writes."""
    return run.info.get("status") == "finished" and (run.path / EXPLANATION).is_file()


def read_resumable(path: Path) -> Run:
    """Read a run folder that is to be trained on, as :func:`read_configured` does.

    Raises:
        UserError: as of that; or the code of its plug-ins is another now.
    """
    run = read_configured(path, TO_TRAIN)
    if run.info.get("status") != "finished" and (changed := other_code(run)):
        raise UserError(f"{changed}, put that back, or start anew")
    return run


def weights_of(folder: Path, checkpoint: str = "best") -> list[Path]:
    """The files of a run's weights: one, or for ``average`` the best that were kept.

    Raises:
        UserError: there is none, or one alone where several are to be averaged.
    """
    above = folder / CHECKPOINTS
    if checkpoint == AVERAGE:
        files = sorted(above.glob(BEST)) + sorted(above.glob("best-*.ckpt"))
        if len(files) < 2:
            raise UserError(f"{above}: holds {len(files)} of the best checkpoints, and an average takes two or more")
        return files
    file = above / f"{checkpoint}.ckpt"
    if not file.is_file() and f"{CHECKPOINTS}/{file.name}" in read_mapping(folder / RUN).get("deleted", ()):
        left = suggest("", [other.stem for other in above.glob("*.ckpt")])
        raise UserError(f"{file}: was deleted by attnx runs prune; results and pictures are still there{left}")
    if not file.is_file():
        there = [other.stem for other in above.glob("*.ckpt")]
        hint = suggest(str(checkpoint), there) or "; the run stopped before its first one"
        raise UserError(f"{file}: no such checkpoint{hint}")
    return [file]


def refuse_unlike(runs: Sequence[Run]) -> None:
    """See that runs can answer together: they read and write the same symbols.

    Raises:
        UserError: one has another task, another vocabulary, other tags or another tokenizer than the first.
    """
    first, *others = runs
    mine = _symbols(first)
    for other in others:
        if other.config["task"]["name"] != first.config["task"]["name"]:
            tasks = f"{other.config['task']['name']}, that of {first.path} {first.config['task']['name']}"
            raise UserError(f"{other.path}: its task is {tasks}; runs that answer together have the same one")
        theirs = _symbols(other)
        unlike = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
        if unlike:
            raise UserError(
                f"{other.path}: its {VOCABULARY}/{unlike[0]} is not that of {first.path}; runs that answer together "
                "need the same vocabularies"
            )


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _symbols(run: Run) -> dict[str, str]:
    return {file.name: digest(file) for file in sorted((run.path / VOCABULARY).iterdir()) if file.is_file()}

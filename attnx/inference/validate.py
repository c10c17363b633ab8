"""Checks that a run folder is complete before it is opened or resumed. Without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.compose import ATTENTION_KINDS, MODEL_KINDS
from attnx.config.groups import PART_GROUPS, SCALARS, check_placement, check_scalar
from attnx.config.view import dotted_keys, value_text
from attnx.data.paths import check_task_files
from attnx.errors import UserError, report_place, suggest
from attnx.models.resolve import part_declarations
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.runs import layout
from attnx.runs.info import RunStatus
from attnx.runs.plugin_copies import changed_code_message, refuse_missing
from attnx.runs.predictions import is_evaluation
from attnx.runs.run import Run, read_run

AVERAGE = "average"
KINDS_TO_OPEN = ("task", "model", "decoding")
KINDS_TO_TRAIN = (*KINDS_TO_OPEN, "optimizer", "lr_schedule", "trainer")
NOTHING_LEFT = "{}: finished; there is nothing left to do"


def read_complete_run(folder: Path | str, checkpoint: str = "best") -> Run:
    """Read a run folder with its configuration filled in, and check that its vocabularies and checkpoint exist.

    ``checkpoint`` is ``best``, ``last``, or ``average``, the mean of the saved best ones.

    Raises:
        UserError: not a run folder, a newer format, half-written, or without vocabulary or checkpoint.
    """
    if not isinstance(folder, str | Path):
        raise UserError(f"{folder!r}: name one run folder; several are opened as an ensemble by open_ensemble")
    path = Path(folder)
    run = read_configured_run(path)
    for side, files in layout.SIDES.items():
        if not any((path / layout.VOCABULARY / file).is_file() for file in files):
            raise UserError(
                f"{path / layout.VOCABULARY / files[0]}: no such file; the run's {side} vocabulary is missing"
            )
    checkpoint_files(path, checkpoint)
    return run


def check_named_files(config: Mapping[str, Any]) -> None:
    """Check that what a configuration names exists: files of data, and the run to begin with.

    Raises:
        UserError: a file is missing, with similar names; or ``init_from`` cannot be opened.
    """
    check_task_files(config["task"])
    if config.get("init_from") is not None:
        with report_place("init_from"):
            read_complete_run(config["init_from"])


def read_configured_run(path: Path, needed: Sequence[str] = KINDS_TO_OPEN) -> Run:
    """Read a run folder with its configuration filled in and checked; the parts ``needed`` must be in it.

    Raises:
        UserError: not a run folder, a newer format, or half-written.
    """
    if is_evaluation(path):
        raise UserError(f"{path}: is an evaluation; name its run, {path.resolve().parents[1]}")
    run = read_run(path)
    if not (path / layout.CONFIG_YAML).is_file():
        raise UserError(f"{path}: is half-written (it has no {layout.CONFIG_YAML}); start a new run")
    refuse_missing(run)
    try:
        run.config = check_complete(run.config, needed)
    except UserError as error:
        changed = changed_code_message(run)
        raise UserError(f"{path / layout.CONFIG_YAML}: {error}" + (f"; {changed}" if changed else "")) from error
    return run


def check_complete(config: Mapping[str, Any], needed: Sequence[str]) -> dict[str, Any]:
    """Check that a configuration holds known parts and values of their types, and fill in defaults.

    Raises:
        UserError: it does not, or has another key, or lacks one of the parts ``needed`` or of those that its model has.
    """
    _refuse_missing_keys(config, needed)
    if config.get("seed") is None:
        raise UserError("has no seed; it is not the complete configuration of a run")
    for key, value in config.items():
        if key not in (*PART_GROUPS, *SCALARS, "placement"):
            raise UserError(f"{key!r} is not a key of a run; remove it")
        if key in PART_GROUPS and key not in MULTI_SELECT_KINDS and not isinstance(value, Mapping):
            raise UserError(f"{key}: expected a name and options, found {value!r}")
        if key in SCALARS:
            check_scalar(key, value)
    check_placement(config.get("placement"))
    complete = registry.with_defaults(config)
    uses = part_declarations(complete, "model").get("uses", MODEL_KINDS)
    has_none = complete.get("attention", {}).get("name") == "none"
    _refuse_missing_keys(complete, [kind for kind in uses if not (has_none and kind in ATTENTION_KINDS)])
    return complete


def refuse_equal_cost(config: Mapping[str, Any]) -> None:
    """Refuse what makes the jobs of a sweep cost the same in the configuration of one run.

    Raises:
        UserError: it has ``match`` or ``budget=flops``.
    """
    equal = [f"match={config['match']}"] if config.get("match") else []
    equal += ["budget=flops"] if config.get("budget") == "flops" else []
    if equal:
        raise UserError(
            f"{equal[0]} makes the jobs of a sweep cost the same, and this is one run; add -m, or leave it out"
        )


def _refuse_missing_keys(config: Mapping[str, Any], kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in config:
            raise UserError(f"has no {kind}; it is not the complete configuration of a run")


def read_resumable_run(path: Path) -> Run:
    """Read a run folder to resume as :func:`read_configured_run` does; its plug-ins must be unchanged."""
    run = read_configured_run(path, KINDS_TO_TRAIN)
    if run.recorded_status != RunStatus.FINISHED and (changed := changed_code_message(run)):
        raise UserError(f"{changed}, restore that, or start a new run")
    return run


def checkpoint_files(folder: Path, checkpoint: str = "best") -> list[Path]:
    """The checkpoint file; for ``average`` the saved best ones.

    Raises:
        UserError: there is none, or only one to average.
    """
    checkpoints = folder / layout.CHECKPOINTS
    if checkpoint == AVERAGE:
        files = sorted(checkpoints.glob(layout.BEST)) + sorted(checkpoints.glob("best-*.ckpt"))
        if len(files) < 2:
            raise UserError(
                f"{checkpoints}: has {len(files)} of the best checkpoints, and an average needs two or more"
            )
        return files
    file = checkpoints / f"{checkpoint}.ckpt"
    if not file.is_file():
        names = [path.stem for path in checkpoints.glob("*.ckpt")]
        if f"{layout.CHECKPOINTS}/{file.name}" in (Run(folder).info.get("deleted") or ()):
            hint = suggest("", names)
            raise UserError(f"{file}: was deleted by attnx runs prune; results and pictures are still there{hint}")
        hint = suggest(str(checkpoint), names) or "; the run stopped before its first one"
        raise UserError(f"{file}: no such checkpoint{hint}")
    return [file]


def refuse_unlike(runs: Sequence[Run]) -> None:
    """Refuse runs as an ensemble if one has another task, vocabulary, tags or tokenizer than the first."""
    first, *further = runs
    expected, task = _vocabulary_digests(first), first.config["task"]["name"]
    for run in further:
        if run.config["task"]["name"] != task:
            raise UserError(
                f"{run.path}: its task is {run.config['task']['name']}, {first.path} has {task}; the runs of an "
                "ensemble have the same one"
            )
        digests = _vocabulary_digests(run)
        if unlike := sorted(name for name in {**expected, **digests} if expected.get(name) != digests.get(name)):
            raise UserError(unlike_message(first, run, f"{layout.VOCABULARY}/{unlike[0]}"))


def unlike_message(first: Run, run: Run, what: str) -> str:
    """Say that ``what`` differs between two runs of an ensemble, and by which options of the task."""
    own, expected = (dotted_keys({"task": item.config["task"]}) for item in (run, first))
    unlike = [key for key in own if own[key] != expected.get(key)]
    options = ", ".join(f"{key}={value_text(own[key])}, there {value_text(expected.get(key))}" for key in unlike)
    return (
        f"{run.path}: its {what} differs from {first.path}'s{f' ({options})' if options else ''}; the runs of an "
        "ensemble need the same task and training data"
    )


def refuse_unlike_data(runs: Sequence[Run]) -> None:
    """Refuse runs as an ensemble if one was trained on data that the first was not, such as the first's test split."""
    first, *further = runs
    for run in further:
        if run.info.get("fingerprint") != first.info.get("fingerprint"):
            raise UserError(
                f"{run.path}: its training data differ from {first.path}'s; the runs of an ensemble are evaluated "
                "only if none was trained on the test split of the first"
            )


def file_digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _vocabulary_digests(run: Run) -> dict[str, str]:
    return {file.name: file_digest(file) for file in sorted((run.path / layout.VOCABULARY).iterdir()) if file.is_file()}

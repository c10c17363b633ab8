"""One run from a configuration to a finished folder; what the command and a notebook both call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from attnx import registry
from attnx.errors import UserError
from attnx.models.composition import composition
from attnx.read_run import read_run
from attnx.recording import recorded
from attnx.reports.composed import composed
from attnx.reports.drawn import draw_and_explain
from attnx.reports.outcome import files, outcome
from attnx.training import run_folder
from attnx.training.open_run import OpenRun, open_run
from attnx.training.train import Job, check_fits, prepare, total_steps, train


def fit(config: Mapping[str, Any], overrides: Sequence[str] = (), console: Console | None = None) -> OpenRun:
    """Train, test and report; return the run reopened with its best weights.

    Args:
        config: from :func:`attnx.compose`.
        overrides: what the user asked for, to be noted in the run folder.
        console: where to show progress; left out, the terminal.

    Raises:
        UserError: a mistake in the configuration or the data; nothing was written.
        Interrupted: Ctrl-C; the run can be resumed.
    """
    console = console or Console()
    job = prepare(config)
    folder = run_folder.create(config, overrides, _facts(job))
    run_folder.save_vocabularies(folder, job.data, job.experiment.task)
    console.print(composed(folder))
    steps = total_steps(job)
    run_folder.note(folder, steps=steps)
    console.print(f"{steps:,} steps of {_batch(config['trainer'])}")
    with recorded(job, folder, console):
        train(job, folder, steps, console)
        return _finish(job, folder, console)


def resume(folder: str | Path, console: Console | None = None) -> OpenRun:
    """Go on with a run that was interrupted, from its last checkpoint.

    Raises:
        UserError: not a run folder, already finished, or its checkpoint does not fit.
    """
    path, console = Path(folder), console or Console()
    run = read_run(path)
    config, info = {**registry.filled(run.config), "folder": str(path)}, run.info
    if info.get("status") == "finished":
        raise UserError(f"{path}: this run is finished; there is nothing to resume")
    if "steps" not in info:
        raise UserError(f"{path}: the run stopped before its first step; start it anew")
    job = prepare(config)
    fingerprint = job.loaders.train_rows.fingerprint()
    if info.get("fingerprint", fingerprint) != fingerprint:
        raise UserError(f"{path}: the training data are not those the run began with; put them back, or start anew")
    check_fits(job.experiment, path)
    run_folder.note(path, status="running")
    with recorded(job, path, console):
        train(job, path, info["steps"], console, resume=True)
        return _finish(job, path, console)


def _facts(job: Job) -> dict[str, Any]:
    """What followed from the configuration, for the start table and the run folder."""
    pairs = job.data.pairs
    return {
        **_followed(job),
        "kernels": _kernels(job),
        "monitor": job.experiment.task.monitor,
        "maximise": job.experiment.task.maximise,
        "fingerprint": job.loaders.train_rows.fingerprint(),
        **_told(job),
        "parameters": sum(weight.numel() for weight in job.experiment.model.parameters()),
        "data": f"{len(pairs.train) or len(job.loaders.train_rows):,} train, {len(pairs.valid):,} valid, "
        f"{len(pairs.test):,} test; source {job.data.source}, target {job.data.target}"
        + (f"; tags {' '.join(job.data.tags)}" if job.data.tags else ""),
    }


def _batch(trainer: Mapping[str, Any]) -> str:
    """How much a step sees."""
    if trainer.get("batch_tokens"):
        return f"up to {trainer['batch_tokens'] * trainer['accumulate']:,} tokens"
    return f"{trainer['batch_size'] * trainer['accumulate']} rows"


def _told(job: Job) -> dict[str, Any]:
    """What the task says of its data and metrics, if anything."""
    task = job.experiment.task
    notes = list(getattr(task, "notes", []))
    signatures = task.signatures(job.experiment.test_metrics) if hasattr(task, "signatures") else {}
    return {name: value for name, value in (("notes", notes), ("signatures", signatures)) if value}


def _followed(job: Job) -> dict[str, str]:
    """What followed from the choices, as far as the model has a composition that says so."""
    chosen = composition(job.config)
    told: dict[str, str] = {} if chosen is None else chosen.told()
    return {**told, "follows": (told.get("follows", "") + _projection(job)).strip()}


def _projection(job: Job) -> str:
    project: Any = getattr(getattr(job.experiment.model, "attention", None), "project", None)
    if not hasattr(project, "in_features"):
        return ""
    return f" projection={project.in_features}->{project.out_features} (the scorer needs equal widths)"


def _kernels(job: Job) -> str:
    """What is asked, before every read, whether it has a faster way to it."""
    found = [kernel for part in job.experiment.model.modules() for kernel in getattr(part, "kernels", ())]
    names = list(dict.fromkeys(registry.name_of("kernel", kernel) for kernel in found))
    if names:
        return f"{' '.join(map(str, names))}; what none of them admits is read by the definition"
    return "none: every read is by the definition"


def _finish(job: Job, folder: Path, console: Console) -> OpenRun:
    """Draw and explain what the folder holds, and show the results."""
    run_folder.note(folder, **_told(job))  # signatures are whole only now: how many references there were is known
    draw_and_explain(folder)
    console.print(outcome(folder))
    console.print(files(folder), highlight=False, soft_wrap=True)
    return open_run(folder)

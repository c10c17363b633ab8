"""Keeps ``sweep.json``: which jobs there are and how each stands, whole at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.diff import ABSENT, changes_text, differences
from attnx.errors import RunFailed, UserError
from attnx.files.atomic_files import write_json
from attnx.registry.plugin_code import code_of, digests
from attnx.registry.source_scan import BY_HAND, catalog
from attnx.runs.layout import CONFIG, RUN, SWEEP
from attnx.runs.plugin_copies import other_code
from attnx.runs.progress import JobProgress
from attnx.runs.run import Run, read_run
from attnx.runs.status import RunStatus
from attnx.runs.sweep import FORMAT, Sweep, SweepJob, is_sweep, read_sweep, split_override
from attnx.runs.writer import update_info

# A search may be given more of.
TRIALS = "hydra.sweeper.n_trials"
# What changes nothing that is computed: where a run lies, and who else is told of it.
ASIDE = ("folder", "logger")
# How a run stands that is not trained again.
KEPT = (RunStatus.FINISHED, RunStatus.PRUNED)
ENDED = (*KEPT, RunStatus.FAILED)


def open_record(folder: Path, command: str, overrides: Sequence[str], config_dir: str | None) -> Sweep:
    """The record in a folder, each job as its own folder says that it stands; a new one if there is none."""
    if is_sweep(folder):
        sweep = read_sweep(folder)
        sweep.command, sweep.overrides, sweep.config_dir = command, list(overrides), config_dir
    else:
        sweep = Sweep(folder, command, list(overrides), config_dir, created=now())
    for job in sweep.jobs:
        refresh(sweep, job)
        if job.status == RunStatus.FAILED:  # it is tried again
            job.status, job.error = RunStatus.WAITING, None
    plugins = (part for part in catalog().parts.values() if part.origin not in ("core", BY_HAND))
    sweep.plugins = digests(code_of(plugins))
    return sweep


def refresh(sweep: Sweep, job: SweepJob) -> None:
    """Let a job stand as its run folder says: one that nobody ended was cut off, and can be gone on from."""
    run = Run(sweep.folder(job))
    stands = run.progress
    note(job, stands)
    status = run.recorded_status
    if status == RunStatus.FINISHED and not run.is_finished:  # cut off while its pictures were drawn
        status = RunStatus.INTERRUPTED
    if status is not None:
        job.status = status if status in ENDED else RunStatus.INTERRUPTED
    elif job.status != RunStatus.FAILED:
        job.status = RunStatus.WAITING
    if stands.error and job.status != RunStatus.FINISHED:
        job.status, job.error = RunStatus.FAILED, stands.error


def note(job: SweepJob, stands: JobProgress) -> None:
    """Note how well a job does."""
    job.monitor, job.maximize, job.best = stands.monitor, stands.maximize, stands.best


def take(sweep: Sweep, asked: Sequence[str]) -> SweepJob:
    """The job that was asked this, in whatever order; a new one if none was."""
    for job in sweep.jobs:
        if same(job.overrides, asked):
            return job
    job = SweepJob(len(sweep.jobs), list(asked))
    sweep.jobs.append(job)
    refresh(sweep, job)
    return job


def same(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two command lines ask the same."""
    return sorted(map(split_override, one)) == sorted(map(split_override, other))


def refuse_another(sweep: Sweep, overrides: Sequence[str], jobs: Sequence[Sequence[str]] | None) -> None:
    """Refuse to take a folder of another sweep for this one; one to which jobs are added is no other.

    Args:
        sweep: what the folder holds.
        overrides: what is asked now.
        jobs: of this sweep; None if a search chooses them as it goes.

    Raises:
        UserError: what the folder holds is not asked for any more, with what was changed.
    """
    if jobs is not None and all(any(same(job.overrides, asked) for asked in jobs) for job in sweep.jobs):
        return
    held, asked = (dict(map(split_override, words)) for words in (sweep.overrides, overrides))
    if jobs is None:
        asked[TRIALS] = held.get(TRIALS, ABSENT)
        held.setdefault(TRIALS, ABSENT)
    if sweep.jobs and (changed := differences(held, asked)):
        raise UserError(f"{sweep.path}: holds another sweep: {changes_text(changed)}; choose name=..., or fresh=true")


def refuse_unlike(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse to go on with a run of another configuration.

    Raises:
        UserError: its folder holds one, with what differs.
    """
    if not (folder / CONFIG).is_file() or not (folder / RUN).is_file():
        return
    held, asked = (
        {name: value for name, value in each.items() if name not in ASIDE}
        for each in (registry.filled(read_run(folder).config), config)
    )
    changed = differences(held, asked)
    if changed:
        raise UserError(
            f"{folder}: holds a run of another configuration: {changes_text(changed)}; choose name=..., or fresh=true"
        )
    refuse_other_code(folder)


def refuse_other_code(folder: Path) -> None:
    """Refuse to add jobs to a finished or half-finished one whose plug-ins have other code by now.

    Raises:
        UserError: they have.
    """
    run = read_run(folder)
    kept = run.recorded_status in KEPT or run.has_checkpoint
    if kept and (changed := other_code(run)):
        raise UserError(f"{changed}, put that back, or start the sweep anew with fresh=true")


def begin(sweep: Sweep) -> None:
    """Note that a sweep is at work; one that has nothing left to do stays finished, whatever ends this command."""
    sweep.status, sweep.ended = RunStatus.RUNNING, None


def save(sweep: Sweep) -> None:
    """Write ``sweep.json``, whole or not at all.

    Raises:
        RunFailed: the sweep's folder was deleted.
    """
    if not sweep.path.is_dir():
        raise RunFailed(
            f"{sweep.path}: the sweep's folder was deleted while it ran, so nothing is left to go on with; start anew"
        )
    jobs = [{"index": job.index, "folder": str(job.index), **asdict(job)} for job in sweep.jobs]
    value = {key: item for key, item in asdict(sweep).items() if key not in ("path", "jobs")}
    write_json(sweep.path / SWEEP, {"format": FORMAT, "name": sweep.name, **value, "jobs": jobs})


def note_run(folder: Path, **facts: Any) -> None:
    """Add to what a run folder says of itself, once nobody else writes there."""
    if (folder / RUN).is_file():
        update_info(folder, **facts)


def note_end(folder: Path, status: str, error: str | None = None) -> None:
    """Note in a run folder how its process ended, where that could not do so itself: it still says it is running."""
    if Run(folder).recorded_status == RunStatus.RUNNING:
        note_run(folder, status=status, **({"error": error} if error else {}))


def now() -> str:
    """The time as it is written in files."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")

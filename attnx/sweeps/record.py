"""A sweep's folder: locked for one command at a time, with the record of its jobs, ``sweep.json``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from attnx import registry
from attnx.config.view import differences_text
from attnx.errors import RunFailed, UserError
from attnx.files.atomic_files import PARTIAL, write_json
from attnx.files.file_lock import is_lock_held, lock_while
from attnx.registry.part import BY_HAND
from attnx.registry.plugin_code import digests, source_files
from attnx.registry.source_scan import catalog
from attnx.runs.info import DONE_STATUSES, RunStatus, update_info
from attnx.runs.layout import CONFIG_YAML, FORMAT, RUN_JSON, RUN_LOCK, SWEEP_JSON, SWEEP_LOCK, refuse_link
from attnx.runs.plugin_copies import changed_code_message
from attnx.runs.run import JobProgress, Run, read_run
from attnx.runs.sweep import Sweep, SweepJob, is_sweep, overrides_key, read_sweep, split_override
from attnx.training.distributed.slurm import slurm_job

# A search may be extended.
TRIALS_KEY = "hydra.sweeper.n_trials"
# Keys that change no result: where a run lies, and its loggers.
NEUTRAL_KEYS = ("folder", "logger")


def open_record(
    folder: Path, command: str, overrides: Sequence[str], config_dir: str | None, max_parallel: int = 1
) -> Sweep:
    """The sweep in a folder, each job with the status of its run folder; a new sweep if there is none."""
    if is_sweep(folder):
        sweep = read_sweep(folder)
        sweep.command, sweep.overrides, sweep.config_dir = command, list(overrides), config_dir
    else:
        sweep = Sweep(folder, command, list(overrides), config_dir, created=timestamp())
    for job in sweep.jobs:
        sync_from_folder(sweep, job)
        if job.status == RunStatus.FAILED:  # it is tried again
            job.status, job.error = RunStatus.WAITING, None
    sweep.max_parallel, sweep.slurm_job = max_parallel, slurm_job()
    plugins = (part for part in catalog().parts.values() if part.origin not in ("core", BY_HAND))
    sweep.plugins = digests(source_files(plugins))
    return sweep


def sync_from_folder(sweep: Sweep, job: SweepJob) -> None:
    """Set a job's status from its run folder; a run that says it is running was killed, and can be resumed."""
    run = Run(sweep.folder(job))
    note_progress(job, run.progress)
    status = run.recorded_status
    if status == RunStatus.FINISHED and not run.is_finished:  # killed while it drew the report
        status = RunStatus.INTERRUPTED
    if status is not None:
        job.status = status if status in (*DONE_STATUSES, RunStatus.FAILED) else RunStatus.INTERRUPTED
    elif job.status != RunStatus.FAILED:
        job.status = RunStatus.WAITING
    if run.progress.error and job.status != RunStatus.FINISHED:
        job.status, job.error = RunStatus.FAILED, run.progress.error


def note_progress(job: SweepJob, progress: JobProgress) -> None:
    """Set a job's metric and best value."""
    job.monitor, job.maximize, job.best = progress.monitor, progress.maximize, progress.best


def note_start(sweep: Sweep, jobs: Iterable[SweepJob] = ()) -> None:
    """Record that a sweep runs, and jobs of it start."""
    for job in jobs:
        job.status, job.started, job.ended, job.error = RunStatus.RUNNING, timestamp(), None, None
        job.attempts += 1
    sweep.status, sweep.ended = RunStatus.RUNNING, None
    save_sweep(sweep)


def get_or_add_job(sweep: Sweep, overrides: Sequence[str]) -> SweepJob:
    """The job with these overrides, in any order; a new one if there is none."""
    key = overrides_key(overrides)
    for job in sweep.jobs:
        if overrides_key(job.overrides) == key:
            return job
    job = SweepJob(len(sweep.jobs), list(overrides))
    sweep.jobs.append(job)
    sync_from_folder(sweep, job)
    return job


def reject_other_sweep(sweep: Sweep, overrides: Sequence[str], jobs: Sequence[Sequence[str]] | None) -> None:
    """Refuse a folder that holds another sweep than a command's, with what changed; with jobs added it is the same.

    ``jobs`` are None if a search chooses them.
    """
    if jobs is not None and {overrides_key(job.overrides) for job in sweep.jobs} <= set(map(overrides_key, jobs)):
        return
    recorded, requested = (dict(map(split_override, words)) for words in (sweep.overrides, overrides))
    if jobs is None:
        recorded[TRIALS_KEY] = requested[TRIALS_KEY] = ""
    if sweep.jobs and (changes := differences_text(recorded, requested)):
        raise UserError(f"{sweep.path}: holds another sweep: {changes}; choose name=..., or fresh=true")


def reject_other_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse to resume a run of another configuration; the message has what differs."""
    if not (folder / CONFIG_YAML).is_file() or not (folder / RUN_JSON).is_file():
        return
    recorded, requested = (
        {name: value for name, value in node.items() if name not in NEUTRAL_KEYS}
        for node in (registry.with_defaults(read_run(folder).config), config)
    )
    if changes := differences_text(recorded, requested):
        raise UserError(
            f"{folder}: holds a run of another configuration: {changes}; choose name=..., or fresh=true, in the "
            "sweep's command"
        )
    reject_other_code(folder)


def reject_other_code(folder: Path) -> None:
    """Refuse to add jobs to a run with results or a checkpoint whose plug-ins have been edited since."""
    run = read_run(folder)
    has_results = run.recorded_status in DONE_STATUSES or run.has_checkpoint
    if has_results and (change := changed_code_message(run)):
        raise UserError(f"{change}, put that back, or add fresh=true to the sweep's command")


def save_sweep(sweep: Sweep) -> None:
    """Write ``sweep.json`` atomically; a RunFailed if the sweep's folder was deleted."""
    if not sweep.path.is_dir():
        raise RunFailed(f"{sweep.path}: the sweep's folder was deleted while it ran; start the sweep anew")
    jobs = [{"index": job.index, "folder": str(job.index), **asdict(job)} for job in sweep.jobs]
    fields = {key: value for key, value in asdict(sweep).items() if key not in ("path", "jobs")}
    write_json(sweep.path / SWEEP_JSON, {"format": FORMAT, "name": sweep.name, **fields, "jobs": jobs})


def note_job_end(folder: Path, status: str, error: str | None = None) -> None:
    """Record how a job ended in ``run.json``, if its process could not.

    A killed process leaves ``running``, and a pruned one ``interrupted``; both are corrected here.
    """
    recorded = Run(folder).recorded_status
    if recorded == RunStatus.RUNNING or (recorded is not None and status == RunStatus.PRUNED):
        update_info(folder, status=status, **({"error": error} if error else {}))


def timestamp() -> str:
    """The time as it is written in files."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def refuse_occupied(folder: Path) -> None:
    """Refuse a folder that is a link, or holds anything but a sweep."""
    refuse_link(folder)
    if not folder.is_dir() or is_sweep(folder):
        return
    # A sweep that was killed as it started left its lock, and perhaps a part of its record.
    if names := sorted(file.name for file in folder.iterdir() if file.name != SWEEP_LOCK and file.suffix != PARTIAL):
        raise UserError(f"{folder}: is not the folder of a sweep, it holds {names[0]}; choose another name=...")


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a sweep's folder: one command at a time runs it. A job holds the lock of its own run.

    Raises:
        UserError: the folder cannot be written, or another command runs the sweep.
    """

    def refuse() -> NoReturn:
        raise UserError(f"{folder}: another attnx runs this sweep; wait for it, or end it")

    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_while(folder / SWEEP_LOCK, refuse))
        except OSError as error:
            raise UserError(f"{folder}: cannot write the sweep's folder ({error.strerror}); choose name=...") from error
        yield


def rename_existing(folder: Path) -> Path | None:
    """Rename the folder of a sweep that starts over; return the new path, None if there was no sweep.

    Raises:
        UserError: a job of it is being trained, and would go on in the new folder.
    """
    if not is_sweep(folder):
        return None
    with lock_folder(folder):
        for run in folder.glob("[0-9]*"):
            if is_lock_held(run / RUN_LOCK):
                raise UserError(f"{run}: is being trained; wait for its end, or stop it first, or choose name=...")
        suffix = 1
        while (renamed := folder.with_name(f"{folder.name}.{suffix}")).exists():
            suffix += 1
        folder.rename(renamed)
    return renamed

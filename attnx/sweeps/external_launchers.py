"""Entry point for Hydra's launchers of others (joblib) and for SLURM's jobs: run one job in a subprocess."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attnx.config.check import check_config
from attnx.config.hydra_session import plain_config
from attnx.errors import ExitCode, UserError
from attnx.files.atomic_files import write_json
from attnx.files.file_lock import wait_for_lock
from attnx.runs.info import DONE_STATUSES
from attnx.runs.layout import LOG_TXT, PROGRESS
from attnx.runs.sweep import Sweep, SweepJob, read_sweep
from attnx.sweeps.expand_overrides import without_hydra_overrides
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.processes import SubprocessProcesses
from attnx.sweeps.record import get_or_add_job, note_job_end, sync_from_folder
from attnx.sweeps.session import has_session, is_stop_requested, objective, signal_error
from attnx.training.distributed.slurm import requeue

POLL_SECONDS = 1.0


def run_one_job(config: Any) -> float:
    """Run one job that Hydra composed in a subprocess; return the objective."""
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    working_folder = Path(hydra.runtime.cwd)
    os.chdir(working_folder)
    sweep = read_sweep(working_folder / hydra.sweep.dir)
    job = get_or_add_job(sweep, without_hydra_overrides(list(hydra.overrides.task)))
    try:
        checked = check_config(plain_config(config), job.overrides)
    except UserError as error:
        write_error(sweep.folder(job), str(error))
    else:
        if not has_session():  # a worker, whom the terminal's Ctrl-C reaches, too: the command decides
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        run_unless_done(sweep, job, checked, dict(os.environ))
    sync_from_folder(sweep, job)
    return objective(job)


def run_unless_done(
    sweep: Sweep,
    job: SweepJob,
    config: Mapping[str, Any],
    environment: Mapping[str, str],
    ends_with_command: bool = True,
) -> None:
    """Run one job of a checked configuration in a subprocess, unless it is done by now.

    A job that ends with the sweep's command saves and ends, or does not start, if that is asked to stop.
    """
    folder = sweep.folder(job)

    def should_stop() -> bool:
        return ends_with_command and is_stop_requested(sweep.path)

    with lock_job(folder) as lock:
        sync_from_folder(sweep, job)
        if job.status not in DONE_STATUSES and not should_stop():
            spec = JobSpec({**config, "folder": str(folder)}, job.overrides, environment, str(Path.cwd()))
            _run(folder, spec, lock, should_stop)


@contextlib.contextmanager
def lock_job(folder: Path) -> Iterator[int]:
    """Lock a job's log; waits while a cluster still runs the job for an earlier command."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / LOG_TXT, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        wait_for_lock(file)
        yield file
    finally:
        os.close(file)


def _run(folder: Path, spec: JobSpec, lock: int, should_stop: Callable[[], bool]) -> None:
    processes, is_stopped = SubprocessProcesses(lock), False
    processes.start(0, spec)
    try:
        while not (exits := processes.wait(POLL_SECONDS)):
            if not is_stopped and should_stop():
                processes.send_signal(0, signal.SIGINT)
                is_stopped = True
    except BaseException:  # launchers stop their jobs in several ways
        processes.close()
        raise
    # SLURM sent the job a signal that submitit has this process ignore.
    code = exits[0][1]
    if code == ExitCode.INTERRUPTED and (message := requeue(signal.SIGTERM)):
        sys.exit(message)
    if error := signal_error(code):
        write_error(folder, error)
        note_job_end(folder, "failed", error)
    note_job_end(folder, "interrupted")


def write_error(folder: Path, error: str) -> None:
    """Write an error into a job's folder, where the sweep reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / PROGRESS, {"error": error})

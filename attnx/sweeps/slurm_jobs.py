"""Jobs that SLURM runs, submitted by submitit and awaited however often they are requeued."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attnx.errors import ExitCode, UserError
from attnx.files.atomic_files import write_json
from attnx.files.process import spawn
from attnx.registry.dependencies import require_package
from attnx.runs.info import DONE_STATUSES, RunStatus
from attnx.runs.layout import PROGRESS
from attnx.runs.sweep import Sweep, SweepJob, read_sweep
from attnx.sweeps.job_process import JobSpec, run_alone
from attnx.sweeps.record import note_job_end, note_start, save_sweep, sync_from_folder, timestamp
from attnx.sweeps.session import SweepSession, signal_error
from attnx.sweeps.summary import best_text
from attnx.training.distributed.slurm import queued_jobs, requeue

# Time between two looks at the jobs' files.
POLL_SECONDS = 1.0
# Options that submitit names alike on all clusters; before the others it wants slurm_.
SHARED_OPTIONS = ("name", "timeout_min", "nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node", "mem_gb",
                  "stderr_to_stdout")  # fmt: skip
# Time between two calls of squeue, which loads the cluster's controller.
SQUEUE_SECONDS = 15.0
# A job that squeue does not list so many times in a row has ended.
MAX_MISSES = 2
# Folder within the sweep's for submitit's files, and for what jobs print before attnx starts.
SUBMITIT_FOLDER = ".submitit"
NOT_REQUEUED = "SLURM's time limit was reached, and the job was requeued hydra.launcher.max_num_timeout times"


def run_unless_done(sweep: Sweep, job: SweepJob, config: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Run one job of a checked configuration in a process of its own, unless it is done by now."""
    sync_from_folder(sweep, job)
    if job.status in DONE_STATUSES:
        return
    folder = sweep.folder(job)
    spec = JobSpec({**config, "folder": str(folder)}, job.overrides, environment, str(Path.cwd()))
    process = spawn(partial(run_alone, os.getpid(), spec), spec.environment)
    try:
        process.wait()
    except BaseException:  # submitit requeues the job and exits
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    # SLURM sent the job a signal that submitit has this process ignore.
    code = process.exit_code or 0
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


@dataclass
class RemoteJob:
    """One job as it is submitted: plain values, composed and checked.

    ``sweep`` is the sweep's folder, and ``created`` when it was created: if it has started over since, nothing runs.
    """

    sweep: str
    created: str | None
    index: int
    config: Mapping[str, Any]
    variables: Mapping[str, str]
    working_folder: str

    def __call__(self) -> None:
        """Run the job on the cluster."""
        from submitit.core.utils import UncompletedJobError

        os.chdir(self.working_folder)
        sweep = read_sweep(self.sweep)
        if sweep.created != self.created:
            return
        job = sweep.jobs[self.index]
        try:
            environment = {**os.environ, **self.variables}
            run_unless_done(sweep, job, self.config, environment)
        except UncompletedJobError:  # submitit will not requeue it again
            write_error(sweep.folder(job), NOT_REQUEUED)

    def checkpoint(self) -> Any:
        """What submitit submits when SLURM needs the machine: the same job, which resumes from its run folder."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


class SlurmQueue:
    """Polls squeue for jobs that have ended; where squeue fails, ``report`` says so, and the jobs' files decide."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.report = report
        self._misses: dict[str, int] = {}
        self._next_poll, self._has_reported = 0.0, False

    def ended_jobs(self, job_ids: Iterable[str]) -> set[str]:
        """The jobs among ``job_ids`` that squeue no longer lists."""
        if time.monotonic() < self._next_poll:
            return set()
        self._next_poll = time.monotonic() + SQUEUE_SECONDS
        try:
            queued = queued_jobs()
        except UserError as error:
            if not self._has_reported:
                self.report(f"{error}; waiting for what the jobs write themselves")
            self._has_reported = True
            return set()
        self._misses = {job_id: self._misses.get(job_id, 0) + 1 for job_id in job_ids if job_id not in queued}
        return {job_id for job_id, count in self._misses.items() if count >= MAX_MISSES}


def require_slurm() -> None:
    """Check that submitit is installed and that SLURM's commands are here.

    Raises:
        UserError: one of them is missing.
    """
    require_package("submitit", "slurm", "a sweep that SLURM runs")
    if shutil.which("srun") is None:
        raise UserError(
            "hydra/launcher=slurm: this machine has no srun; start it where SLURM's commands are, or leave it out"
        )


def run_on_slurm(session: SweepSession, jobs: Iterable[tuple[SweepJob, JobSpec]], options: Mapping[str, Any]) -> None:
    """Submit jobs with the launcher's options, and wait until they have ended unless these say ``detach``.

    Raises:
        Stopped: by Ctrl-C or another signal; the jobs go on, and the message says how to resume.
    """
    path, created, variables = str(session.sweep.path), session.sweep.created, session.variables
    submissions = [
        (job, RemoteJob(path, created, job.index, spec.config, variables, spec.working_folder)) for job, spec in jobs
    ]
    is_detached = options.get("detach")
    if is_detached:
        submissions = leave_out_queued(session, submissions)
    waiting = submit(session, options, submissions)
    if not is_detached:
        wait(session, waiting, SlurmQueue(session.screen.print))
    session.reject_stop()


def submit(
    session: SweepSession, options: Mapping[str, Any], submissions: Sequence[tuple[SweepJob, RemoteJob]]
) -> dict[str, tuple[SweepJob, Any]]:
    """Submit jobs, with options as submitit calls them; return them by SLURM's ids, with submitit's handles."""
    if not submissions:
        return {}
    executor = _executor(session.sweep.path, options)
    note_start(session.sweep, [job for job, _ in submissions])
    with executor.batch():  # one job array
        handles = [executor.submit(remote) for _, remote in submissions]
    waiting = {handle.job_id: (job, handle) for (job, _), handle in zip(submissions, handles, strict=True)}
    for job_id, (job, _) in waiting.items():
        job.cluster_job = job_id
        session.screen.print(f"job {job.index} sent as {job_id}: {session.sweep.label(job)}")
    save_sweep(session.sweep)
    return waiting


def leave_out_queued(
    session: SweepSession, submissions: Sequence[tuple[SweepJob, RemoteJob]]
) -> list[tuple[SweepJob, RemoteJob]]:
    """Leave out the jobs that an earlier command has submitted and that SLURM still has.

    Raises:
        UserError: squeue failed.
    """
    queued = queued_jobs() if any(job.cluster_job for job, _ in submissions) else set()
    for job, _ in submissions:
        if job.cluster_job in queued:
            job.status = RunStatus.RUNNING
            session.screen.print(f"job {job.index} is queued as {job.cluster_job}: {session.sweep.label(job)}")
    save_sweep(session.sweep)
    return [(job, remote) for job, remote in submissions if job.cluster_job not in queued]


def _executor(sweep: Path, options: Mapping[str, Any]) -> Any:
    """Submitit's executor, in a new folder: submitit unpickles results, so nobody may have written there before."""
    from submitit import AutoExecutor

    options = {name: value for name, value in options.items() if name not in ("cluster", "detach")}
    limits = {"slurm_max_num_timeout": options.pop("max_num_timeout")} if "max_num_timeout" in options else {}
    folder = sweep / SUBMITIT_FOLDER / secrets.token_hex(4)
    folder.mkdir(parents=True, mode=0o700)
    executor = AutoExecutor(folder=folder / "%j", cluster="slurm", **limits)
    executor.update_parameters(
        **{name if name in SHARED_OPTIONS else f"slurm_{name}": value for name, value in options.items()}
    )
    return executor


def wait(session: SweepSession, waiting: dict[str, tuple[SweepJob, Any]], queue: SlurmQueue) -> None:
    """Wait until each job, by SLURM's id, has ended and will not be requeued, and record how.

    If the command is asked to stop, it returns, and the jobs go on.
    """
    while waiting and not session.stop_signal.signum:
        ended = queue.ended_jobs(waiting)
        for job_id, (job, handle) in list(waiting.items()):
            current = replace(job)
            if handle.paths.result_pickle.exists():
                sync_from_folder(session.sweep, current)
            if job_id in ended or current.status in (*DONE_STATUSES, RunStatus.FAILED):  # an interrupted one may return
                del waiting[job_id]
                note_job_end(session.sweep.folder(job), "interrupted")  # if it was killed, it could not record that
                sync_from_folder(session.sweep, job)
                if job.status == RunStatus.WAITING:
                    output = f"what it printed is in {handle.paths.stderr}"
                    job.status, job.error = RunStatus.FAILED, f"it ended before attnx started; {output}"
                job.ended = timestamp()
                save_sweep(session.sweep)
                text = f"job {job.index} {job.status}: {session.sweep.label(job)}  {best_text(job)}"
                session.screen.print(text.rstrip())
        if waiting:
            time.sleep(POLL_SECONDS)

"""Runs within SLURM: requeue a job that loses its machine, and find the run that it left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.runs.run import read_run

# Signals by which SLURM warns a job, if it was asked to: sbatch --signal=USR1@90.
WARNING_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
COMMAND_TIMEOUT_SECONDS = 30.0


def slurm_job() -> str | None:
    """The id of the job that this process is part of; None outside SLURM.

    For a job of an array this is the id of the array and the index: SLURM_JOB_ID of its last job is the array's.
    """
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return (f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")) or None


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a run or a sweep to stop: SIGINT, SIGTERM, and within SLURM its warnings."""
    return (signal.SIGINT, signal.SIGTERM, *(WARNING_SIGNALS if slurm_job() else ()))


def requeue(signum: int) -> str | None:
    """Have SLURM start this job again after a signal, if the signal meant that the machine is needed elsewhere.

    SIGTERM is also what ``scancel`` sends, after which a job must not come back. A preempted job has a PreemptTime if
    it was given time to end; otherwise SLURM has counted a restart, and starts it again by itself. Returns a clause for
    the user, or None.
    """
    job = slurm_job()
    if job is None or os.environ.get("SLURM_PROCID", "0") != "0":
        return None
    description = _run_command("scontrol", "show", "job", job)[1]
    restarts = re.search(r"\bRestarts=(\d+)", description)
    message = f"SLURM will start job {job} again, and it goes on"
    if restarts and int(restarts[1]) > _restart_count():
        return message
    is_preempted = signum == signal.SIGTERM and re.search(r"\bPreemptTime=\d", description)
    if signum not in WARNING_SIGNALS and not is_preempted:
        return None
    is_requeued, output = _run_command("scontrol", "requeue", job)
    return message if is_requeued else f"scontrol requeue {job} failed: {output}"


def queued_jobs() -> set[str]:
    """The jobs of this user that SLURM has not ended: waiting, running, or to be started again.

    Raises:
        UserError: squeue failed.
    """
    has_succeeded, output = _run_command("squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i")
    if not has_succeeded:
        raise UserError(f"squeue failed: {output}")
    return set(output.split())


def _restart_count() -> int:
    """How often SLURM had restarted this job when it started."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def _run_command(*words: str) -> tuple[bool, str]:
    """Run a command; return whether it succeeded, and its output in one line."""
    try:
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, " ".join(str(error).split())
    return result.returncode == 0, " ".join((result.stdout + result.stderr).split())


def is_requeued() -> bool:
    """Whether SLURM has started the job that this process is part of again."""
    return slurm_job() is not None and _restart_count() > 0


def find_interrupted_run(overrides: Sequence[str], folder: str | None) -> Path | None:
    """The folder of the run that this command began before SLURM requeued its job; else None."""
    if not is_requeued():
        return None
    for path in [Path(folder)] if folder else sorted(Path("multirun", "runs").glob("*"), reverse=True):
        try:
            run = read_run(path)
        except UserError:
            continue
        if run.info.get("slurm_job") == slurm_job() and run.info.get("overrides") == list(overrides):
            return path
    return None

"""Runs within SLURM: a job that is to give its machine up is sent again, and then goes on where it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.runs.run import Run, read_run

# By these SLURM warns a job, if it was asked to: sbatch --signal=USR1@90.
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)
SECONDS = 30.0


def slurm_job() -> str | None:
    """The number of the job that this process is part of; None outside SLURM.

    Of a job of an array it is the array's and the task's: the last one's own is that of the whole array.
    """
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return (f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")) or None


def signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a run, or a sweep, to stop; SLURM's warnings are nobody's elsewhere."""
    return (signal.SIGINT, signal.SIGTERM, *(WARNINGS if slurm_job() else ()))


def send_again(number: int) -> str | None:
    """Have SLURM send this job again after a signal, if that meant that the machine is wanted by others.

    SIGTERM also comes with ``scancel``, after which a job must not come back. Of a job that is pre-empted, SLURM knows
    since when, if it was given time to end; if not, SLURM has counted a restart, and sends it again by itself.

    Returns:
        what became of it, for the user; None if it was not to be sent again.
    """
    job = slurm_job()
    if job is None or os.environ.get("SLURM_PROCID", "0") != "0":
        return None
    shown = _ask("scontrol", "show", "job", job)[1]
    restarts = re.search(r"\bRestarts=(\d+)", shown)
    again = f"SLURM will start job {job} again, and it goes on"
    if restarts and int(restarts[1]) > _restarts():
        return again
    if number not in WARNINGS and not (number == signal.SIGTERM and re.search(r"\bPreemptTime=\d", shown)):
        return None
    done, said = _ask("scontrol", "requeue", job)
    return again if done else f"scontrol requeue {job} failed: {said}"


def queued() -> set[str]:
    """The jobs of this user that SLURM has yet to end: waiting, running, or to be sent again.

    Raises:
        UserError: SLURM cannot be asked.
    """
    done, said = _ask("squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i")
    if not done:
        raise UserError(f"squeue failed: {said}")
    return set(said.split())


def _restarts() -> int:
    """How often this job was sent again before it started."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def _ask(*words: str) -> tuple[bool, str]:
    try:
        told = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, " ".join(str(error).split())
    return told.returncode == 0, " ".join((told.stdout + told.stderr).split())


def left_off(overrides: Sequence[str], folder: str | None = None) -> Run | None:
    """The run that this command began before SLURM sent its job again; None if this is the job's first time.

    Args:
        overrides: what the command asks.
        folder: where it asks the run to be, if it does.
    """
    job = slurm_job()
    if job is None or not _restarts():
        return None
    for place in [Path(folder)] if folder else sorted(Path("multirun", "runs").glob("*"), reverse=True):
        try:
            run = read_run(place)
        except UserError:
            continue
        if run.info.get("slurm_job") == job and run.info.get("overrides") == list(overrides):
            return run
    return None

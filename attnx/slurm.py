"""Runs within SLURM: a job that is to give its machine up is sent again, and then goes on where it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.read_run import Run, read_run

# By these SLURM warns a job, if it was asked to: sbatch --signal=USR1@90.
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)
SECONDS = 30.0


def slurm_job() -> str | None:
    """The number of the job that this process is part of; None outside SLURM."""
    return os.environ.get("SLURM_JOB_ID") or None


def signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a run, or a sweep, to stop; SLURM's warnings are nobody's elsewhere."""
    return (signal.SIGINT, signal.SIGTERM, *(WARNINGS if slurm_job() else ()))


def send_again(number: int) -> str | None:
    """Have SLURM send this job again after a signal, if that meant that the machine is wanted by others.

    SIGTERM also comes with ``scancel``, after which a job must not come back; of a job that is pre-empted, SLURM knows
    since when.

    Returns:
        what became of it, for the user; None if it was not to be sent again.
    """
    job = slurm_job()
    if job is None or os.environ.get("SLURM_PROCID", "0") != "0":
        return None
    if number not in WARNINGS and not (number == signal.SIGTERM and _preempted(job)):
        return None
    done, said = _scontrol("requeue", job)
    return f"SLURM will start job {job} again, and it goes on" if done else f"scontrol requeue {job} failed: {said}"


def _preempted(job: str) -> bool:
    return bool(re.search(r"PreemptTime=\d", _scontrol("show", "job", job)[1]))


def _scontrol(*words: str) -> tuple[bool, str]:
    try:
        told = subprocess.run(["scontrol", *words], capture_output=True, text=True, check=False, timeout=SECONDS)
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
    if job is None or os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
        return None
    for place in [Path(folder)] if folder else sorted(Path("multirun", "runs").glob("*"), reverse=True):
        try:
            run = read_run(place)
        except UserError:
            continue
        if run.info.get("slurm_job") == job and run.info.get("overrides") == list(overrides):
            return run
    return None

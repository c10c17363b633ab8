"""What other launchers call, joblib's, Ray's, and jobs of SLURM's: a process for one job, wherever they are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnx.config.compose import check
from attnx.errors import UserError
from attnx.runs.layout import LOG, PROGRESS
from attnx.runs.sweep import Sweep, SweepJob, read_sweep
from attnx.sweeps.expand_overrides import ours
from attnx.sweeps.job_process import INTERRUPTED, JobSpec
from attnx.sweeps.pool import reason
from attnx.sweeps.processes import SubprocessProcesses
from attnx.sweeps.record import note_end, refresh, take
from attnx.sweeps.session import DONE, to_minimize
from attnx.training.distributed.slurm import send_again

SECONDS = 60.0


def elsewhere(config: Any) -> float:
    """Do one job in a process of its own; return what is to be minimized.

    Args:
        config: what Hydra composed.
    """
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    hydra = HydraConfig.get()
    place = Path(hydra.runtime.cwd)
    os.chdir(place)
    sweep = read_sweep(place / hydra.sweep.dir)
    job = take(sweep, ours(list(hydra.overrides.task)))
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    try:
        checked = check({str(name): value for name, value in plain.items()}, job.overrides)
    except UserError as error:
        leave(sweep.folder(job), str(error))
    else:
        carry_out(sweep, job, checked, dict(os.environ))
    refresh(sweep, job)
    return to_minimize(job)


def carry_out(sweep: Sweep, job: SweepJob, config: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Do one job in a process of its own, unless it is done by now.

    Args:
        sweep: the sweep.
        job: which of its jobs.
        config: the job's, checked.
        environment: all variables of that process.
    """
    with held(sweep.folder(job)) as lock:
        refresh(sweep, job)
        if job.status not in DONE:
            _do(sweep, job, JobSpec(config, job.overrides, environment, str(Path.cwd())), lock)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Hold a job's folder by its log: a job that a cluster still runs for an earlier command is waited for."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / LOG, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _do(sweep: Sweep, job: SweepJob, task: JobSpec, lock: int) -> None:
    folder = sweep.folder(job)
    processes = SubprocessProcesses(lock)
    processes.start(0, task._replace(config={**task.config, "folder": str(folder)}))
    try:
        while not (ended := processes.wait(SECONDS)):
            pass
    except BaseException:  # asked to stop, in whatever way this launcher does that
        processes.signal(0, signal.SIGINT)
        processes.close()
        raise
    # SLURM had told it to end before it told this process, which submitit has made deaf to that.
    if ended[0].code == INTERRUPTED and (again := send_again(signal.SIGTERM)):
        sys.exit(again)
    if told := reason(ended[0].code):
        leave(folder, told)
        note_end(folder, "failed", told)
    note_end(folder, "interrupted")


def leave(folder: Path, error: str) -> None:
    """Leave in a job's folder what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRESS).write_text(json.dumps({"error": error}), encoding="utf-8")

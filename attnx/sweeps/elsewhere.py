"""What other launchers of Hydra's call, joblib's, submitit's, Ray's: a process for one job, wherever they are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnx.config import check
from attnx.errors import UserError
from attnx.read_sweep import Sweep, SweepJob, read_sweep
from attnx.run_format import LOG, PROGRESS
from attnx.slurm import send_again
from attnx.sweeps.asked import ours
from attnx.sweeps.pool import reason
from attnx.sweeps.processes import Fresh
from attnx.sweeps.record import refresh, take
from attnx.sweeps.running import DONE, to_minimise
from attnx.sweeps.worker import INTERRUPTED, Task

SECONDS = 60.0


def elsewhere(config: Any) -> float:
    """Do one job in a process of its own; return what is to be minimised.

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
    with held(sweep.folder(job)) as lock:
        refresh(sweep, job)
        if job.status not in DONE:
            plain = OmegaConf.to_container(config, resolve=True)
            assert isinstance(plain, dict)
            _do(sweep, job, {str(name): value for name, value in plain.items()}, place, lock)
            refresh(sweep, job)
    return to_minimise(job)


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


def _do(sweep: Sweep, job: SweepJob, plain: dict[str, Any], place: Path, lock: int) -> None:
    folder = sweep.folder(job)
    try:
        checked = check(plain, job.overrides)
    except UserError as error:
        _leave(folder, str(error))
        return
    processes = Fresh(lock)
    processes.start(0, Task({**checked, "folder": str(folder)}, job.overrides, dict(os.environ), str(place)))
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
        _leave(folder, told)


def _leave(folder: Path, error: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRESS).write_text(json.dumps({"error": error}), encoding="utf-8")

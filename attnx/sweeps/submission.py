"""Sends a sweep's jobs to SLURM by submitit, and waits until SLURM is done with each, however often it comes back."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.runs.status import RunStatus
from attnx.runs.sweep import SweepJob, read_sweep
from attnx.sweeps.external_launchers import carry_out, leave
from attnx.sweeps.live_table import best
from attnx.sweeps.record import begin, note_end, now, refresh, save
from attnx.sweeps.session import DONE, SweepSession
from attnx.training.distributed.slurm import queued

# What submitit calls alike on all clusters; other knobs are SLURM's own.
SHARED = (
    "name",
    "timeout_min",
    "nodes",
    "tasks_per_node",
    "cpus_per_task",
    "gpus_per_node",
    "mem_gb",
    "stderr_to_stdout",
)
# Seconds between two looks at the jobs' files, and between two questions to SLURM, which has others to serve.
SECONDS, POLL = 1.0, 15.0
# A job that is missing so often when SLURM is asked is not coming back.
MISSES = 2
# Of the sweep's folder: where submitit keeps what it sends, and what the jobs say before attnx begins.
SUBMITTED = ".submitit"
PLAIN: Any = {"highlight": False, "markup": False, "soft_wrap": True}
GIVEN_UP = "SLURM's time was up, and the job was sent again as often as hydra.launcher.max_num_timeout says"


class Remote:
    """One job, as it is sent: plain values, and nothing that must be composed anew.

    Args:
        sweep: the sweep's folder.
        number: the job's.
        config: composed and checked.
        variables: those that Hydra sets for a job.
        place: the working folder.
    """

    def __init__(
        self, sweep: str, number: int, config: Mapping[str, Any], variables: Mapping[str, str], place: str
    ) -> None:
        self.sweep, self.number, self.config = sweep, number, config
        self.variables, self.place = variables, place

    def __call__(self) -> None:
        """Do it, where SLURM runs it."""
        from submitit.core.utils import UncompletedJobError

        os.chdir(self.place)
        sweep = read_sweep(self.sweep)
        job = sweep.jobs[self.number]
        try:
            carry_out(sweep, job, self.config, {**os.environ, **self.variables})
        except UncompletedJobError:  # submitit's way to end a job that it does not send again
            leave(sweep.folder(job), GIVEN_UP)

    def checkpoint(self) -> Any:
        """What submitit sends when SLURM wants the machine: the same, since the run folder says how far it is."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


class Queue:
    """What SLURM has of this user's jobs, asked now and then; where it cannot be asked, the jobs' files must do.

    Args:
        tell: says a line to the user.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._missed: dict[str, int] = {}
        self._next, self._told = 0.0, False

    def left(self, numbers: Iterable[str]) -> set[str]:
        """Those of some jobs that SLURM has no more."""
        if time.monotonic() < self._next:
            return set()
        self._next = time.monotonic() + POLL
        try:
            known = queued()
        except UserError as error:
            if not self._told:
                self.tell(f"{error}; waiting for what the jobs write themselves")
            self._told = True
            return set()
        self._missed = {number: self._missed.get(number, 0) + 1 for number in numbers if number not in known}
        return {number for number, count in self._missed.items() if count >= MISSES}


def submit(
    running: SweepSession, cluster: str, knobs: Mapping[str, Any], asked: Sequence[tuple[SweepJob, Remote]]
) -> None:
    """Send jobs and wait for them.

    Args:
        running: the sweep at work.
        cluster: ``slurm`` or ``local``.
        knobs: what each job is given, as submitit calls it.
        asked: jobs, and what is sent of each.
    """
    if not asked:
        return
    executor = _executor(running.sweep.path, cluster, knobs)
    for job, _ in asked:
        job.status, job.started, job.ended, job.error = RunStatus.RUNNING, now(), None, None
        job.attempts += 1
    begin(running.sweep)
    save(running.sweep)
    with executor.batch():  # one array
        handles = [executor.submit(remote) for _, remote in asked]
    tell = running.screen.console.print
    for (job, _), handle in zip(asked, handles, strict=True):
        tell(f"job {job.index} sent as {handle.job_id}: {running.sweep.label(job)}", **PLAIN)
    queue = Queue(lambda line: tell(line, **PLAIN)) if cluster == "slurm" else None
    wait(running, {handle.job_id: (job, handle) for (job, _), handle in zip(asked, handles, strict=True)}, queue)


def _executor(path: Path, cluster: str, knobs: Mapping[str, Any]) -> Any:
    """submitit's, in a folder of its own: what it finds there it unpickles, so nobody may have written there before."""
    from submitit import AutoExecutor

    named = dict(knobs)
    resent = {"slurm_max_num_timeout": named.pop("max_num_timeout")} if "max_num_timeout" in named else {}
    folder = path / SUBMITTED / secrets.token_hex(4)
    folder.mkdir(parents=True, mode=0o700)
    executor = AutoExecutor(folder=folder / "%j", cluster=cluster, **resent)
    executor.update_parameters(**{name if name in SHARED else f"{cluster}_{name}": named[name] for name in named})
    return executor


def wait(running: SweepSession, waiting: dict[str, tuple[SweepJob, Any]], queue: Queue | None) -> None:
    """Wait until each job has ended for good, and note how.

    Args:
        running: the sweep at work.
        waiting: jobs by the numbers that the cluster gave them, with submitit's handle.
        queue: what SLURM has; None where the jobs run here.
    """
    while waiting:
        left = queue.left(waiting) if queue else {number for number, (_, handle) in waiting.items() if handle.done()}
        for number, (job, handle) in list(waiting.items()):
            if number in left or (handle.paths.result_pickle.exists() and _has_ended(running, job)):
                del waiting[number]
                _conclude(running, job)
        if waiting:
            time.sleep(SECONDS)


def _has_ended(running: SweepSession, job: SweepJob) -> bool:
    """Whether a job's files say that it will not go on; one that was interrupted may be sent again."""
    found = replace(job)
    refresh(running.sweep, found)
    return found.status in (*DONE, "failed")


def _conclude(running: SweepSession, job: SweepJob) -> None:
    folder = running.sweep.folder(job)
    note_end(folder, "interrupted")  # it was ended too suddenly to say so
    refresh(running.sweep, job)
    job.ended = now()
    save(running.sweep)
    words = f"job {job.index} {job.status}: {running.sweep.label(job)}  {best(job)}".rstrip()
    running.screen.console.print(words, **PLAIN)

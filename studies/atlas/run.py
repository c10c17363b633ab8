"""Train what is missing of the study, for some minutes.

    python studies/atlas/run.py --minutes 60 -j 2

It needs the data of design.yaml in ``$ATTNX_DATA`` (docs/data.md). Ctrl-C, or the end of the minutes, stops it cleanly:
runs that were under way go on from their checkpoints the next time.
"""

from __future__ import annotations

import argparse
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from design import Job, jobs, read_design
from experiments import write_experiments
from reverse import write_reverse

from attnx.errors import ExitCode
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep, SweepJob, is_sweep, read_sweep

DESIGN = Path(__file__).with_name("design.yaml")
BUILD = Path("build/atlas")
SWEEPS = Path("multirun")
PREFIX = "atlas-"
JOBS_PER_SWEEP = 40
POLL_SECONDS = 0.5
ENDED = (RunStatus.FINISHED, RunStatus.FAILED)


class Deadline:
    """When to stop: after some minutes, or when Ctrl-C or SIGTERM asks for it."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._stop)

    @property
    def has_passed(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() >= self._end

    def _stop(self, *_: object) -> None:
        self._end = time.monotonic()


def main() -> int:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="when to stop (60)")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="runs at a time (1)")
    arguments = parser.parse_args()
    deadline = Deadline(arguments.minutes)
    tasks, seeds = read_design(DESIGN)
    planned = list(jobs(tasks, seeds))
    write_reverse(BUILD / "reverse")
    write_experiments(BUILD, planned, tasks)
    for sweep in sweeps():
        if any(job.status not in ENDED for job in sweep.jobs) and not deadline.has_passed:
            attnx(["resume", str(sweep.path)], arguments.jobs, deadline)
    ended = {
        (name, seed) for sweep in sweeps() for job in sweep.jobs if job.status in ENDED for name, seed in [_key(job)]
    }
    missing = [job for job in planned if (job.experiment, job.seed) not in ended]
    for _, group in groupby(missing, key=lambda job: (job.task, job.seed)):
        of_sweep = list(group)
        for start in range(0, len(of_sweep), JOBS_PER_SWEEP):
            if not deadline.has_passed:
                train(of_sweep[start : start + JOBS_PER_SWEEP], arguments.jobs, deadline)
    return 0


def sweeps() -> Iterator[Sweep]:
    """The study's sweeps."""
    return (read_sweep(folder) for folder in sorted(SWEEPS.glob(f"{PREFIX}*")) if is_sweep(folder))


def _key(job: SweepJob) -> tuple[str, int]:
    return job.values["experiment"], int(job.values["seed"])


def train(some: Sequence[Job], parallel: int, deadline: Deadline) -> None:
    """Train jobs of one task and seed as a sweep. If some are refused, halves are tried, until those are alone."""
    names = ",".join(job.experiment for job in some)
    digest = hashlib.sha256(f"{names} {some[0].seed}".encode()).hexdigest()[:8]
    words = ["-m", f"experiment={names}", f"seed={some[0].seed}", f"name={PREFIX}{some[0].task}-{digest}"]
    if attnx(words, parallel, deadline) != ExitCode.USER_ERROR:
        return
    if len(some) == 1:
        print(f"refused, see above: {some[0].task} with {' '.join(some[0].setting)}", file=sys.stderr)
        return
    for half in (some[: len(some) // 2], some[len(some) // 2 :]):
        train(half, parallel, deadline)


def attnx(words: Sequence[str], parallel: int, deadline: Deadline) -> int:
    """Run attnx until it ends, or, at the deadline, has saved and stopped; return its exit code."""
    command = [sys.executable, "-m", "attnx", *words, "-j", str(parallel), "--config-dir", str(BUILD)]
    process = subprocess.Popen(command, start_new_session=True)  # Ctrl-C reaches it through the deadline alone
    while process.poll() is None and not deadline.has_passed:
        time.sleep(POLL_SECONDS)
    if process.poll() is None:
        process.terminate()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())

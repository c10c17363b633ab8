"""Train what is missing of the study, for some minutes, and add what has ended to results.csv.

    python -m studies.atlas --minutes 60 -j 2
    python -m studies.atlas --merge FILE
    python -m studies.atlas --check

It needs the data of design.yaml in $ATTNX_DATA (docs/data.md). Ctrl-C, or the end of the minutes, stops it cleanly:
runs that were under way go on from their checkpoints the next time. A run whose row is in results.csv is never trained
again, on whatever machine.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from attnx.errors import ExitCode, UserError
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep, is_sweep, read_sweep
from studies.atlas.design import Job, Task, jobs, read_design
from studies.atlas.experiments import write_experiments
from studies.atlas.results import ENDED, Results
from studies.atlas.reverse import write_reverse
from studies.attnx_process import Deadline, run_attnx

HERE = Path(__file__).parent
BUILD, SWEEPS, PREFIX = Path("build/atlas"), Path("multirun"), "atlas-"
JOBS_PER_SWEEP = 40
SHORT = ["trainer.max_steps=20", "trainer.num_validations=1", "trainer.valid_examples=20", "trainer.test_examples=40"]


class Study:
    """The runs of the design, trained in sweeps below ``multirun``; those that have ended are added to the table."""

    def __init__(self, planned: Sequence[Job], results: Results, parallel: int, deadline: Deadline) -> None:
        self.planned, self.results = planned, results
        self.parallel, self.deadline = parallel, deadline
        self._jobs = {f"{job.experiment} {job.seed}": job for job in planned}

    @property
    def missing(self) -> list[Job]:
        """The runs that are not in the table, in the order of the design."""
        return [job for job in self.planned if job not in self.results.runs]

    def resume(self) -> None:
        """Collect what earlier calls trained, and resume what they interrupted."""
        for sweep in _sweeps():
            self._collect(sweep.path)
            if not self.deadline.has_passed and any(job.status not in ENDED for job in sweep.jobs):
                self._attnx(["resume", str(sweep.path)])
                self._collect(sweep.path)

    def train_missing(self) -> None:
        """Train until nothing is missing or time is up, one task and seed after the other."""
        for _, group in groupby(self.missing, key=lambda job: (job.task, job.seed)):
            of_task = list(group)
            for start in range(0, len(of_task), JOBS_PER_SWEEP):
                self.train(of_task[start : start + JOBS_PER_SWEEP])

    def train(self, some: Sequence[Job], options: Sequence[str] = ()) -> None:
        """Train jobs of one seed as a sweep. If some are refused, halves are tried, until those are alone."""
        if self.deadline.has_passed:
            return
        experiments, seed = ",".join(job.experiment for job in some), some[0].seed
        name = f"{PREFIX}{some[0].task}-{hashlib.sha256(f'{experiments} {seed}'.encode()).hexdigest()[:8]}"
        words = ["-m", f"experiment={experiments}", f"seed={seed}", f"name={name}", *options]
        if self._attnx(words) != ExitCode.USER_ERROR:
            self._collect(SWEEPS / name)
        elif len(some) == 1:
            print(f"refused, see above: {some[0].task} with {' '.join(some[0].setting)}", file=sys.stderr)
        else:
            for half in (some[: len(some) // 2], some[len(some) // 2 :]):
                self.train(half, options)

    def _attnx(self, words: Sequence[str]) -> int:
        return run_attnx([*words, "-j", str(self.parallel), "--config-dir", str(BUILD)], self.deadline)

    def _collect(self, folder: Path) -> None:
        if is_sweep(folder) and self.results.collect(read_sweep(folder), self._jobs):
            self.results.write()


def _sweeps() -> Iterator[Sweep]:
    return (read_sweep(folder) for folder in sorted(SWEEPS.glob(f"{PREFIX}*")) if is_sweep(folder))


def main() -> int:
    """Parse the command line and train."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m studies.atlas", description=__doc__, formatter_class=style)
    parser.add_argument("--minutes", type=float, default=60.0, help="when to stop (60)")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="runs at a time (1)")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--merge", type=Path, metavar="FILE", help="add the runs of another table, and train none")
    modes.add_argument("--check", action="store_true", help="train two settings of each task for a few steps, add none")
    arguments = parser.parse_args()
    tasks, seeds = read_design(HERE / "design.yaml")
    deadline = Deadline(arguments.minutes)
    try:
        if arguments.check:
            return check(tasks, seeds[0], arguments.jobs, deadline)
        planned = list(jobs(tasks, seeds))
        results = Results(HERE / "results.csv", planned)
        if arguments.merge:
            print(f"{results.merge(arguments.merge)} runs added from {arguments.merge}")
            results.write()
            return 0
        _prepare(planned, tasks)
        study = Study(planned, results, arguments.jobs, deadline)
        study.resume()
        study.train_missing()
    except UserError as error:
        print(f"atlas: {error}", file=sys.stderr)
        return ExitCode.USER_ERROR
    print(f"{len(results.runs)} of {len(planned)} runs are in {results.path}, {len(study.missing)} are missing")
    return 0


def check(tasks: dict[str, Task], seed: int, parallel: int, deadline: Deadline) -> int:
    """Train the first and the last setting of each task for a few steps, in a temporary folder; whether all finish."""
    planned = [
        Job(task.name, setting, seed) for task in tasks.values() for setting in task.settings[:: len(task.settings) - 1]
    ]
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        _prepare(planned, tasks)
        study = Study(planned, Results(Path("results.csv"), planned), parallel, deadline)
        study.train(planned, SHORT)
        again = Results(Path("results.csv"), planned)
        failed = [run for run in again.runs.values() if run.status != RunStatus.FINISHED]
    for run in failed:
        print(f"failed: {run.label}: {run.error}", file=sys.stderr)
    print(f"{len(again.runs)} of {len(planned)} runs of the check are in the table, {len(failed)} failed")
    return int(bool(failed) or len(again.runs) < len(planned))


def _prepare(planned: Sequence[Job], tasks: dict[str, Task]) -> None:
    """Write the generated data and the experiment files."""
    write_reverse(BUILD / "reverse")
    write_experiments(BUILD, planned, tasks)


if __name__ == "__main__":
    sys.exit(main())

"""Trains the runs of a study that are not in its table, as sweeps of attnx, until time is up."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from attnx.errors import ExitCode, UserError, suggest
from attnx.runs.sweep import Sweep, is_sweep, read_sweep
from studies.attnx_process import Deadline, run_attnx
from studies.job import Job
from studies.results import ENDED, Results

SWEEPS = Path("multirun")
JOBS_PER_SWEEP = 40


@dataclass(frozen=True)
class Study:
    """The runs of a design, trained in sweeps ``multirun/NAME-...``; those that have ended are added to the table."""

    name: str  # of the study
    experiments: Path  # the folder with ``experiment``, in which each job has a file
    planned: Sequence[Job]  # all runs, in the order in which they are trained
    results: Results  # the table
    parallel: int  # how many runs are trained at a time
    deadline: Deadline  # when training stops

    @property
    def missing(self) -> list[Job]:
        """The runs that are not in the table."""
        return [job for job in self.planned if job not in self.results.runs]

    def train_missing(self, is_needed: Callable[[Job], bool]) -> None:
        """Train until nothing that is needed is missing, or time is up; what is needed is asked before each seed.

        What earlier calls trained is collected first, and the sweeps they interrupted go on if a job is needed.
        """
        self._resume(is_needed)
        for _, group in groupby(self.missing, key=lambda job: job.seed):
            jobs = list(filter(is_needed, group))
            for start in range(0, len(jobs), JOBS_PER_SWEEP):
                self.train(jobs[start : start + JOBS_PER_SWEEP])

    def _resume(self, is_needed: Callable[[Job], bool]) -> None:
        experiments = {job.experiment for job in self.planned if is_needed(job)}
        for sweep in self._sweeps():
            self._collect(sweep.path)
            unfinished = {job.values["experiment"] for job in sweep.jobs if job.status not in ENDED}
            if not self.deadline.has_passed and unfinished & experiments:
                self._attnx(["resume", str(sweep.path)])
                self._collect(sweep.path)

    def train(self, jobs: Sequence[Job], options: Sequence[str] = ()) -> None:
        """Train jobs of one seed as a sweep. If some are refused, halves are tried, until those are alone."""
        if self.deadline.has_passed:
            return
        experiments, seed = ",".join(job.experiment for job in jobs), jobs[0].seed
        name = f"{self.name}-{jobs[0].task}-{hashlib.sha256(f'{experiments} {seed}'.encode()).hexdigest()[:8]}"
        words = ["-m", f"experiment={experiments}", f"seed={seed}", f"name={name}", *options]
        if self._attnx(words) != ExitCode.USER_ERROR:
            self._collect(SWEEPS / name)
        elif len(jobs) == 1:
            print(f"refused, see above: {jobs[0].task} with {' '.join(jobs[0].setting)}", file=sys.stderr)
        else:
            for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
                self.train(half, options)

    def folder(self, job: Job) -> Path | None:
        """The run folder of a job that was trained here; None if it was not."""
        for sweep in self._sweeps():
            for member in sweep.jobs:
                if (member.values["experiment"], member.values["seed"]) == (job.experiment, str(job.seed)):
                    return sweep.folder(member)
        return None

    def _attnx(self, words: Sequence[str]) -> int:
        options = ["-j", str(self.parallel), "--config-dir", str(self.experiments)]
        return run_attnx([*words, *options], self.deadline)

    def _collect(self, folder: Path) -> None:
        experiments = {f"{job.experiment} {job.seed}": job for job in self.planned}
        if is_sweep(folder) and self.results.collect(read_sweep(folder), experiments):
            self.results.write()

    def _sweeps(self) -> Iterator[Sweep]:
        return (read_sweep(folder) for folder in sorted(SWEEPS.glob(f"{self.name}-*")) if is_sweep(folder))


def select_names(words: Sequence[str], names: Iterable[str], file: str) -> frozenset[str]:
    """The names that were typed, all of the file's if none was; an unknown one is a UserError."""
    known = list(names)
    for word in words:
        if word not in known:
            raise UserError(f"{word}: no name in {file}{suggest(word, known)}")
    return frozenset(words or known)


def study_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """The command line that studies have in common."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"python -m studies.{name}", description=description, formatter_class=style)
    parser.add_argument("--minutes", type=float, default=60.0, help="when to stop (60)")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="runs at a time (1)")
    return parser

"""results.csv: the table of a study's runs that have ended, which are never trained again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from attnx.config.view import key_part, names_text, value_text
from attnx.errors import UserError
from attnx.files.atomic_files import atomic_write
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import read_run_table, table_text
from attnx.runs.info import RunStatus
from attnx.runs.sweep import Sweep, split_override
from studies.job import Job, Setting

ENDED = (RunStatus.FINISHED, RunStatus.FAILED)
TASK, QUERY, RATE = "task", "query", "optimizer.lr"
COLUMN_ORDER = (TASK, "scorer", "scope", QUERY, "normalizer", "model", "attention", "optimizer")
Identity = tuple[str, frozenset[tuple[str, str]], int | None]
"""Task, choices without the learning rate, seed."""


class Results:
    """The runs in results.csv by job. The file is checked when it is read, and replaced as a whole."""

    def __init__(self, path: Path, planned: Iterable[Job]) -> None:
        """Read the table, if there is one.

        Raises:
            UserError: a row is broken, doubled, or foreign: of no job of the design, of other steps, of data that
                differ from those of the task's earlier rows, or of a commit that is not in the history.
        """
        self.path = path
        self.runs: dict[Job, RunRecord] = {}
        self._jobs: dict[Identity, dict[str | None, Job]] = {}
        for job in planned:
            choices = setting_choices(job.setting)
            rate = choices.pop(RATE, None)
            self._jobs.setdefault((job.task, frozenset(choices.items()), job.seed), {})[rate] = job
        for run in read_run_table(path) if path.is_file() else ():
            self._add(run)
        _reject_unknown_commits(self.runs.values())

    def collect(self, sweep: Sweep, jobs: Mapping[str, Job]) -> int:
        """Add the runs of a sweep that have ended since; return their number. ``jobs`` are by experiment and seed."""
        new: dict[Path, Job] = {}
        for member in sweep.jobs:
            planned = jobs.get(f"{member.values['experiment']} {member.values['seed']}")
            if planned is not None and planned not in self.runs and member.status in ENDED:
                new[sweep.folder(member).resolve()] = planned
        for run in load_runs([sweep.path]) if new else ():
            if (job := new.get(run.path.resolve())) is not None:
                self._add(replace(run, choices=_row_choices(job, run.choices)))
        return len(new)

    def merge(self, path: Path) -> int:
        """Add the runs of another table that this one lacks; return their number. It is checked like this one."""
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        other = Results(path, [job for by_rate in self._jobs.values() for job in by_rate.values()])
        new = [run for job, run in other.runs.items() if job not in self.runs]
        for run in new:
            self._add(run)
        return len(new)

    def add_table(self, path: Path) -> None:
        """Merge another table, write the result, and say how many runs were added."""
        print(f"{self.merge(path)} runs added from {path}")
        self.write()

    def write(self) -> None:
        """Write the table, with what another process has added to it since."""
        if self.path.is_file():
            self.merge(self.path)
        used = dict.fromkeys(key for run in self.runs.values() for key in run.choices)
        order = [*COLUMN_ORDER, *dict.fromkeys(map(key_part, used))]
        keys = sorted(used, key=lambda key: order.index(key_part(key)))
        with atomic_write(self.path) as partial:
            partial.write_text(table_text(list(self.runs.values()), keys), encoding="utf-8", newline="")

    def _add(self, run: RunRecord) -> None:
        job = self._find_job(run)
        if (first := self.runs.get(job)) is not None:
            raise UserError(f"{run.path}: the same setting and seed as {first.path}; delete one of them")
        if run.status == RunStatus.FINISHED and job.steps is not None and run.results.get("steps") != job.steps:
            steps = int(run.results.get("steps", 0))
            raise UserError(f"{run.path}: trained for {steps} steps, and the design says {job.steps}; delete it")
        for other, earlier in self.runs.items():
            if other.task == job.task and RunStatus.FAILED not in (run.status, earlier.status):
                if (run.data, run.test) != (earlier.data, earlier.test):
                    raise UserError(
                        f"{run.path}: trained or tested on other data than {earlier.path}; delete one of them"
                    )
                break
        self.runs[job] = run

    def _find_job(self, run: RunRecord) -> Job:
        choices = {key: value_text(value) for key, value in run.choices.items()}
        task, rate = choices.pop(TASK, ""), choices.pop(RATE, None)
        by_rate = self._jobs.get((task, frozenset(choices.items()), run.seed), {})
        if (job := by_rate.get(rate) or by_rate.get(None)) is None:
            raise UserError(f"{run.path}: no run of the design: {run.label} seed={run.seed}")
        return job


def setting_choices(setting: Setting) -> dict[str, str]:
    """A setting as choices by key, written as in a table of runs."""
    choices = dict(map(split_override, setting))
    if QUERY in choices:
        choices[QUERY] = names_text(yaml.safe_load(choices[QUERY]))
    return choices


def _row_choices(job: Job, config: Mapping[str, Any]) -> dict[str, Any]:
    """The choices in a run's row: its task by the name in the design, its setting, and its learning rate."""
    return {TASK: job.task, **setting_choices(job.setting), **({RATE: config[RATE]} if RATE in config else {})}


def _reject_unknown_commits(runs: Iterable[RunRecord]) -> None:
    """Check the commits, if the whole history is here."""
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
        return
    for commit, run in {run.commit: run for run in reversed(list(runs)) if run.commit}.items():
        if _git("merge-base", "--is-ancestor", commit.removesuffix("+"), "HEAD").returncode:
            raise UserError(f"{run.path}: of commit {commit}, which is not in the history of this one")


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(Path(__file__).parent), *words], capture_output=True)

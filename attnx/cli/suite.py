"""``attnx suite``: trains what a protocol asks for and is missing, as sweeps, and writes where a mechanism stands."""

from __future__ import annotations

import contextlib
import itertools
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from attnx.cli.sweep import SweepArgs, sweep
from attnx.config.compose import compose
from attnx.config.suite_file import BASELINES, SEARCH_SEED, Suite, merge_overrides, reject_several
from attnx.errors import ExitCode, Stopped, UserError, report_place
from attnx.files.printable import print_line
from attnx.registry.plugin_code import short_digest
from attnx.reports.suite.standings import Entry, Standings, choose_run
from attnx.reports.suite.suite_report import counted_elsewhere, merge_entries, read_entries, write_suite_report
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from attnx.runs.layout import SWEEPS
from attnx.runs.plugin_copies import current_code
from attnx.runs.sweep import is_sweep, overrides_key, read_sweep, split_override
from attnx.sweeps import session
from attnx.sweeps.equal_budgets import EqualJob, equalize
from attnx.sweeps.gpus import count_parallel_jobs, visible_gpus
from attnx.sweeps.overrides import without_hydra_overrides
from attnx.sweeps.preflight import find_errors
from attnx.sweeps.processes import ForkServerProcesses
from attnx.sweeps.record import reject_other_config
from attnx.sweeps.session import job_environment

SUITES: Final = SWEEPS / "suites"
STAGES: Final = {"search": "search", "seeds": "the runs that count"}
SEARCH, COUNTED = STAGES
CHECK_BASELINES = 2  # in all, with the challenger

Cell = tuple[str, str]
"""A task and a mechanism."""
Records = Mapping[tuple[tuple[str, str], ...], RunRecord]
"""Runs by their overrides."""


@dataclass
class SuiteCommand:
    """A command line of ``attnx suite``."""

    suite: Suite  #: the protocol
    overrides: Sequence[str]  #: what the challenger is, and Hydra's; empty without one
    tables: Sequence[Path] = ()  #: runs of others
    config_dir: str | None = None  #: the user's own configuration folder
    max_parallel: int | str = 1  #: how many jobs run at a time
    is_check: bool = False  #: whether everything is short
    command_line: str = "attnx suite"  #: the command, to be run again
    #: of each mechanism on each task that it can do, with the first values of the search
    configs: dict[Cell, dict[str, Any]] = field(default_factory=dict)
    refused: dict[Cell, str] = field(default_factory=dict)  #: why a mechanism cannot do a task
    #: a run by task, mechanism and values of the search, at the cost of the first baseline with the first values
    matched: dict[tuple[str, ...], EqualJob] = field(default_factory=dict)
    server: ForkServerProcesses | None = None  #: from which the jobs of all sweeps are forked
    codes: dict[Cell, str] = field(default_factory=dict)  #: digests of the plug-ins, which hold for the whole command
    records: dict[Path, Records] = field(default_factory=dict)  #: the runs of each sweep, when it last ended
    notes: list[str] = field(default_factory=list)  #: what is possible, and perhaps not meant

    def __post_init__(self) -> None:
        own = without_hydra_overrides(self.overrides)
        self.hydra = [word for word in self.overrides if word not in own]
        self.own = [word for word in own if split_override(word)[0] != "name"]
        names = [value for key, value in map(split_override, own) if key == "name"]
        if len(names) > 1 or (names and not self.own):
            raise UserError(f"name={names[-1]}: names the mechanism that other overrides describe; give one")
        reject_several(self.own)
        self.suite.reject_foreign(self.own)
        if self.is_check:
            self.suite = self.suite.shortened(CHECK_BASELINES - bool(self.own))
        self.challenger = self.suite.name_of(self.own, *names) if self.own else ""
        self.mechanisms = {**({self.challenger: self.own} if self.own else {}), **self.suite.baselines}
        self.others = [entry for table in self.tables for entry in read_entries(self.suite, table)]
        self.shared = counted_elsewhere(self.suite, self.others, self.mechanisms)

    def run(self) -> int:
        """Train what is missing, and write the report, also after a signal, of what there is; return the exit code.

        Raises:
            UserError: a mistake in the suite or the challenger, before anything is trained.
            Stopped: by a signal; the message says how to go on.
        """
        self.check()
        for note in self.notes:
            print_line(f"note: {note}", flush=True)
        stopped = None
        if any(len(entry.finished) < self.suite.seeds or entry.status for entry in map(self._entry, self.configs)):
            try:
                self._train_all()
            except KeyboardInterrupt as stop:
                signum = stop.signum if isinstance(stop, Stopped) else signal.SIGINT
                stopped = Stopped(f"what has finished is kept; go on with: {self.command_line}", signum)
        try:
            entries = self._entries()
        except UserError as error:
            if stopped:
                # The same command says what is wrong before it trains, now that there are runs to compare.
                raise stopped from error
            raise
        widths = [
            f"On {task}, {' '.join([name, *values])} has {equal.note}, the nearest that its widths allow."
            for (task, name, *values), equal in self.matched.items()
            if not equal.is_close
        ]
        standings = Standings(self.suite, entries, self.challenger, [*self.notes, *widths])
        for sentence in standings.conclusions:
            print_line(sentence.replace("**", ""))
        for path in write_suite_report(standings, SUITES / self.suite.name / (self.challenger or BASELINES)):
            print_line(path)
        if stopped:
            raise stopped
        own = [entry for entry in entries if (entry.task, entry.mechanism) in self.configs]
        is_complete = all(len(entry.finished) >= self.suite.seeds and not entry.status for entry in own)
        return ExitCode.FINISHED if is_complete else ExitCode.FAILED

    def check(self) -> None:
        """Compose each mechanism on each task, and each value of the search; see what cannot be.

        A baseline that cannot do one task has no result there; any other mistake is refused.
        """
        for cell in ((task, name) for name in self.mechanisms for task in self.suite.tasks):
            if cell in self.shared:
                continue
            try:
                self.configs[cell] = compose(self._job(cell, self.suite.grid[0]), self.config_dir)
            except UserError as error:
                self.refused[cell] = str(error)
        self._reject()
        self._reject_times()
        if self.suite.match:
            self._match()
        self._reject_equal()
        first = next(iter(self.configs))
        with report_place(f"{self.suite.file}: search"):
            for values in self.suite.grid[1:]:
                compose(self._job(first, values), self.config_dir)
        self.codes = {cell: short_digest(current_code(config)) for cell, config in self.configs.items()}
        for folder in {self._folder(cell, stage) for cell in self.configs for stage in STAGES}:
            self._read(folder)
        for cell, config in self.configs.items():
            stage, seed = (SEARCH, SEARCH_SEED) if self.suite.has_search else (COUNTED, self.suite.counted_seeds[0])
            if (run := self._record(cell, stage, self._job(cell, self.suite.grid[0], seed))) is not None:
                reject_other_config(run.path, {**config, "seed": seed})
        self._entries()

    def _entries(self) -> list[Entry]:
        """The runs that count, by task and mechanism, and those of others; a UserError if these had another test."""
        cells = [(task, name) for name in self.mechanisms for task in self.suite.tasks]
        return merge_entries([*map(self._entry, cells)], self.others)

    def _reject(self) -> None:
        """Refuse a suite of which a task or a baseline is impossible, and a challenger that cannot do some task."""
        file, tasks, mechanisms = self.suite.file, self.suite.tasks, self.mechanisms
        if self.refused and not self.configs and not self.shared:
            cell, reason = next(iter(self.refused.items()))
            with report_place(f"{file}: base"):
                compose(self._job(cell, []), self.config_dir)
            raise UserError(f"{file}: search: {reason}")
        for task in tasks:
            if all((task, name) in self.refused for name in mechanisms):
                raise UserError(f"{file}: tasks.{task}: {self.refused[task, next(iter(mechanisms))]}")
        for (task, name), reason in self.refused.items():
            is_impossible = all((task, name) in self.refused for task in tasks)
            if name == self.challenger:
                raise UserError(reason if is_impossible else f"{name} cannot do {task} of {file}: {reason}")
            if is_impossible:
                raise UserError(f"{file}: baselines.{name}: {reason}")

    def _reject_times(self) -> None:
        """Refuse runs that a time ends: it would be another number of steps for each mechanism."""
        for (task, _), config in self.configs.items():
            trainer = config["trainer"]
            if trainer["max_steps"] is None and trainer["max_epochs"] is None and config["budget"] != "time":
                raise UserError(
                    f"{self.suite.file}: tasks.{task}: set trainer.max_steps or trainer.max_epochs; trainer.max_time "
                    "would be other steps for each mechanism, unless budget=time is what you mean"
                )

    def _reject_equal(self) -> None:
        """Refuse two mechanisms that are the same setting on each task; note two that are on some.

        A check has two of the tasks, and a table of others tells no configurations: there all that is seen is noted.
        """
        is_whole = not (self.is_check or self.shared)
        for first, second in itertools.combinations(self.mechanisms, 2):
            common = [task for task in self.suite.tasks if {(task, first), (task, second)} <= self.configs.keys()]
            equal = [task for task in common if self.configs[task, first] == self.configs[task, second]]
            if equal and equal == common and is_whole:
                raise UserError(f"{self.suite.file}: {first} and {second} are the same setting; leave one out")
            if equal:
                self.notes.append(
                    f"On {', '.join(equal)}, {first} and {second} are the same setting: their runs are equal."
                )

    def _match(self) -> None:
        """Solve, for each value of the search, the width with which a mechanism costs what the first baseline does."""
        reference, *_ = self.suite.baselines
        for task in self.suite.tasks:
            names = [reference, *(name for cell_task, name in self.configs if cell_task == task and name != reference)]
            keys = [(task, name, *values) for name in names for values in self.suite.grid]
            jobs = [self._job((task, name), values) for _, name, *values in keys]
            configs = [compose([*job, f"match={self.suite.match}"], self.config_dir) for job in jobs]
            for key, job, equal in zip(keys, jobs, equalize(jobs, configs), strict=True):
                width = [word for word in equal.overrides if word not in job]
                with report_place(f"match={self.suite.match}"):
                    self.suite.reject_foreign(width)
                self.matched[key] = equal._replace(overrides=width)
            for cell in ((task, name) for name in names if (task, name) in self.configs):
                self.configs[cell] = compose(self._job(cell, self.suite.grid[0]), self.config_dir)

    def _job(self, cell: Cell, values: Sequence[str], seed: int = SEARCH_SEED) -> list[str]:
        task, name = cell
        equal = self.matched.get((*cell, *values))
        width = equal.overrides if equal else []
        mechanism = merge_overrides(self.mechanisms[name], width)
        return self.suite.job(task, mechanism, values, seed)

    def _folder(self, cell: Cell, stage: str) -> Path:
        """The folder of a sweep, of the challenger or of all baselines; other code of a plug-in has another one."""
        mechanism = self.challenger if cell[1] == self.challenger else BASELINES
        return SUITES / self.suite.name / "-".join(filter(None, (mechanism, self.codes[cell]))) / stage

    def _train_all(self) -> None:
        """Check all that will be trained, then search for all mechanisms on all tasks, and train the chosen seeds."""
        with contextlib.ExitStack() as stack:
            if not self.hydra:  # other launchers start processes of their own
                configs = self.configs.values()
                environment = job_environment(count_parallel_jobs(self.max_parallel, configs, visible_gpus()))
                self.server = stack.enter_context(contextlib.closing(session.start_fork_server(environment)))
                errors = find_errors([*configs], environment, self.server)
                self.refused |= {cell: error for cell, error in zip(self.configs, errors, strict=False) if error}
                self._reject()
                self.configs = {cell: config for cell, config in self.configs.items() if cell not in self.refused}
            for stage in STAGES:
                jobs: dict[Path, list[list[str]]] = {}
                for cell in self.configs:
                    jobs.setdefault(self._folder(cell, stage), []).extend(self._jobs(cell, stage))
                for folder, jobs_of_folder in jobs.items():
                    self._sweep(folder, jobs_of_folder)

    def _jobs(self, cell: Cell, stage: str) -> list[list[str]]:
        """The jobs of a stage: one for each combination of the search, if there are several, or for each seed."""
        if stage == SEARCH:
            return [self._job(cell, values) for values in self.suite.grid if self.suite.has_search]
        values = self._chosen(cell)
        return [] if values is None else [self._job(cell, values, seed) for seed in self.suite.counted_seeds]

    def _sweep(self, folder: Path, jobs: list[list[str]]) -> None:
        """Run the jobs that have not finished; a sweep of all baselines leaves no core or cluster idle for each."""
        finished = {key for key, run in self.records[folder].items() if run.status == RunStatus.FINISHED}
        pending = [job for job in jobs if overrides_key(job) not in finished]
        if not pending:
            return
        print_line(f"attnx: suite {self.suite.name}, {folder.parent.name}, {STAGES[folder.name]}", flush=True)
        args = SweepArgs(self.hydra, self.config_dir, self.max_parallel, pending, self.command_line)
        try:
            sweep(args, folder, self.server)
        except UserError as error:  # such as another command that runs it; the other sweeps go on
            print_line(f"attnx: {folder.parent.name}: {error}", flush=True)
        finally:
            self._read(folder)

    def _read(self, folder: Path) -> None:
        """Read the runs of a sweep, if it was begun."""
        self.records[folder] = {}
        if is_sweep(folder):
            stored, runs = read_sweep(folder), {run.path: run for run in load_runs([folder])}
            self.records[folder] = {overrides_key(job.overrides): runs[stored.folder(job)] for job in stored.jobs}

    def _record(self, cell: Cell, stage: str, job: list[str]) -> RunRecord | None:
        return self.records[self._folder(cell, stage)].get(overrides_key(job))

    def _chosen(self, cell: Cell) -> list[str] | None:
        """The values that are best in validation; None if no run of the search has finished."""
        if not self.suite.has_search:
            return self.suite.grid[0]
        tried = [(values, self._record(cell, SEARCH, self._job(cell, values))) for values in self.suite.grid]
        best = choose_run([run for _, run in tried if run is not None])
        return next((values for values, run in tried if run is not None and run is best), None)

    def _entry(self, cell: Cell) -> Entry:
        """A mechanism on a task, as it stands."""
        (task, mechanism), overrides = cell, " ".join(self.mechanisms[cell[1]])
        if cell not in self.configs:
            return Entry(task, mechanism, overrides, reason=self.refused.get(cell, ""))
        searched = (self._record(cell, SEARCH, job) for job in self._jobs(cell, SEARCH))
        failed = sum(run is None or run.status != RunStatus.FINISHED for run in searched)
        runs = [run for job in self._jobs(cell, COUNTED) if (run := self._record(cell, COUNTED, job)) is not None]
        missing = "its search has not finished" if self._chosen(cell) is None else "it is not trained yet"
        return Entry(task, mechanism, overrides, runs, failed, reason="" if runs else missing)

"""A run folder: its files, each read when it is first needed; and the run folders below others. Without torch."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping
from attnx.files.file_lock import is_lock_held, is_lock_left, lock_while
from attnx.runs.info import RunStatus, parse_iso_time, read_config, read_info
from attnx.runs.layout import CHECKPOINTS, CONFIG_YAML, LAST, METRICS, PROGRESS, README, RUN_JSON, RUN_LOCK
from attnx.runs.results import BaselineDifference, Curve, Interval, Results, read_curves, read_results
from attnx.runs.sweep import is_sweep, sweep_of

# Time without a write after which a run that says it is running counts as stopped, where its lock is not seen.
SILENCE_SECONDS = 86400.0


class DiskUsage(NamedTuple):
    """The bytes of all files in a folder, and when one was last written, in seconds since 1970."""

    size: int
    modified: float


@dataclass
class JobProgress:
    """How far a run is, as far as its files say."""

    monitor: str | None = None  #: the validation metric that selects the best weights, once it is known
    maximize: bool = False  #: whether a higher one is better
    curve: list[float] = field(default_factory=list)  #: its values, in the order of validations
    step: int = 0  #: the optimizer steps taken
    steps: int = 0  #: the steps to take
    error: str | None = None  #: why the job failed

    @property
    def best(self) -> float | None:
        """The best value so far; NaN is never the best."""
        values = [value for value in self.curve if value == value]
        return (max if self.maximize else min)(values) if values else None


class Run:
    """A run folder, whose files are read when they are first needed; UserErrors if they cannot be read."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def load(self) -> Self:
        """Read run.json, config.yaml and results.json at once, so that errors in them are raised now."""
        _ = self.info, self.config, self.measured
        return self

    @cached_property
    def info(self) -> dict[str, Any]:
        """The content of run.json."""
        return read_info(self.path)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.yaml; empty without the file."""
        return read_config(self.path / CONFIG_YAML)

    @cached_property
    def measured(self) -> Results:
        """The content of results.json; empty without the file."""
        return read_results(self.path)

    @property
    def results(self) -> dict[str, Any]:
        """The numbers of results.json; None for what could not be measured."""
        return self.measured.numbers

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """The 95 % interval of each metric that has one."""
        return self.measured.intervals

    @property
    def baselines(self) -> Mapping[str, Mapping[str, BaselineDifference]]:
        """The difference from each baseline in each metric."""
        return self.measured.baselines

    @property
    def signatures(self) -> Mapping[str, str]:
        """The exact definition of each metric that has one (BLEU, chrF, TER)."""
        return self.measured.signatures

    @property
    def name(self) -> str:
        """The name that the run was given, else that of its folder."""
        return str(self.info.get("name") or self.path.resolve().name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the run: the given one, the folder's, and ``SWEEP/JOB`` for a job of a sweep."""
        path = self.path.absolute()
        name, job = self.info.get("name"), f"{path.parent.name}/{path.name}" if is_sweep(path.parent) else ""
        return tuple(filter(None, (str(name or ""), path.name, job)))

    @property
    def sweep(self) -> Path | None:
        """The sweep that the run is a job of."""
        return sweep_of(self.path)

    @property
    def evaluated_run(self) -> Run:
        """The run itself; of an evaluation, the run that was evaluated."""
        return self

    @property
    def monitor(self) -> str:
        """The validation metric that selects the best weights; "" if run.json does not name it."""
        return str(self.info.get("monitor") or "")

    @property
    def test_metric(self) -> str:
        """The monitored metric in the test's results; "" if it is not known."""
        return f"test_{self.monitor.removeprefix('valid_')}" if self.monitor else ""

    @property
    def maximize(self) -> bool:
        """Whether a higher value of the monitored metric is better."""
        return bool(self.info.get("maximize"))

    @property
    def created(self) -> datetime | None:
        """When the run was created, if run.json says so."""
        return parse_iso_time(self.info.get("created") or "")

    @property
    def recorded_status(self) -> RunStatus | None:
        """The status in run.json; None before the file is written."""
        return RunStatus(str(self.info.get("status"))) if (self.path / RUN_JSON).is_file() else None

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do: the README is the last file that a run writes, and empty on a full disk."""
        readme = self.path / README
        return self.info.get("status") == RunStatus.FINISHED and readme.is_file() and readme.stat().st_size > 0

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run can resume from its last checkpoint."""
        return (self.path / CHECKPOINTS / LAST).is_file()

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The columns of metrics.csv by step."""
        return read_curves(self.path)

    @cached_property
    def progress(self) -> JobProgress:
        """The progress of the run; missing or half-written files are left out."""
        try:
            info, curves = self.info if (self.path / RUN_JSON).is_file() else {}, self.curves
        except UserError:
            return JobProgress()
        job, monitor = self._job_progress, info.get("monitor") or ""
        step, error = job.get("step"), job.get("error")
        return JobProgress(
            monitor or None,
            bool(info.get("maximize")),
            list(curves.get(monitor, {}).values()),
            max([step if isinstance(step, int) else 0, *(max(curve, default=0) for curve in curves.values())]),
            info.get("steps") or 0,
            str(error) if error else None,
        )

    @property
    def _job_progress(self) -> dict[str, Any]:
        try:
            return read_mapping(self.path / PROGRESS)
        except UserError:  # half written
            return {}

    @cached_property
    def disk_usage(self) -> DiskUsage:
        """The bytes in the folder, a file with several hard links once, and its last write; no link is followed."""
        files = {(stat.st_dev, stat.st_ino): stat for stat in _file_stats(self.path)}.values()
        return DiskUsage(sum(stat.st_size for stat in files), max((stat.st_mtime for stat in files), default=0.0))

    @cached_property
    def status(self) -> RunStatus:
        """The status of the run; also of one that was killed and could not record it, or that is being resumed."""
        if not self.is_finished and is_lock_held(self.path / RUN_LOCK):
            return RunStatus.RUNNING
        status = RunStatus(str(self.info.get("status")))
        if status != RunStatus.RUNNING:
            return status
        if self._job_progress.get("error"):
            return RunStatus.FAILED
        is_silent = time.time() - self.disk_usage.modified > SILENCE_SECONDS
        return RunStatus.STOPPED if is_silent or is_lock_left(self.path / RUN_LOCK) else RunStatus.RUNNING

    @property
    def train_seconds(self) -> float | None:
        """The seconds of training; of an unfinished run, from its creation to the last row of metrics.csv."""
        if (seconds := self.results.get("train_seconds")) is not None:
            return float(seconds)
        if not self.created:
            return None
        metrics = self.path / METRICS
        modified = metrics.stat().st_mtime if metrics.is_file() else self.disk_usage.modified
        return max(0.0, (time.time() if self.status == RunStatus.RUNNING else modified) - self.created.timestamp())


def _file_stats(folder: Path | str) -> Iterator[os.stat_result]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # a process that writes renames files meanwhile
                if entry.is_dir(follow_symlinks=False):
                    yield from _file_stats(entry.path)
                else:
                    yield os.lstat(entry.path)


def read_run(folder: Path | str) -> Run:
    """Read a run folder.

    Raises:
        UserError: not a folder, not a run folder, an unreadable file, or a newer format.
    """
    run = Run(folder)
    if not run.path.is_dir():
        raise UserError(f"{run.path}: not a folder")
    return run.load()


def lock_run(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a run's folder, so that two processes never train the same run; a UserError if one does."""

    def refuse() -> NoReturn:
        raise UserError(f"{folder}: another process trains this run; wait for its end, or stop it first")

    return lock_while(folder / RUN_LOCK, refuse)


def find_runs(roots: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The runs in some folders and below, each once, and a message for each folder that cannot be read.

    Links and hidden folders are skipped.
    """
    runs: dict[Path, Run] = {}
    messages: list[str] = []
    for root in roots:
        if not root.is_dir():
            raise UserError(f"{root}: not a folder")
        walk = os.walk(root, onerror=lambda error: messages.append(f"{error.filename}: {error.strerror}"))
        for folder, names, files in walk:
            names[:] = sorted(name for name in names if not name.startswith("."))
            if RUN_JSON not in files:
                continue
            names.clear()  # a run holds no other
            try:
                run = Run(folder).load()
                _ = run.status
                runs.setdefault(run.path.resolve() if len(roots) > 1 else run.path, run)
            except (UserError, OSError) as error:
                messages.append(str(error))
    return list(runs.values()), messages

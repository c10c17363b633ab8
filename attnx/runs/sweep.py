"""Reads a sweep's record: its jobs with their status and best value. Without torch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import MAX_LIST_BYTES, read_mapping
from attnx.files.file_lock import is_lock_held
from attnx.registry.option_types import seconds
from attnx.runs.info import DONE_STATUSES, JOB_STATUSES, RunStatus, check_format
from attnx.runs.layout import LOG_TXT, STEP_TIME, SWEEP_JSON, SWEEP_LOCK, config_dir_words, resume_command

# An override with several values: 1,2 or range(1,3); a list, [1,2], is one value.
SEVERAL_VALUES = re.compile(r"^(?![\[{'\"]).*[,(]")


@dataclass
class SweepJob:
    """One job of a sweep."""

    index: int  #: its index, from 0, which is also the name of its folder
    overrides: list[str]  #: as on a command line
    status: RunStatus = RunStatus.WAITING  #: of the job
    started: str | None = None  #: when it was last started, ISO 8601
    ended: str | None = None  #: when it last ended
    seconds: float = 0.0  #: of all attempts
    attempts: int = 0  #: the number of starts
    error: str | None = None  #: why it failed, in one line
    monitor: str | None = None  #: the validation metric that selects the best weights
    maximize: bool = False  #: whether a higher one is better
    best: float | None = None  #: its best value so far
    match: str | None = None  #: what was matched with the first job, and by how much it differs: ``parameters +0.4 %``.
    #: the id by which the cluster knows it, if a sweep that did not wait has submitted it
    cluster_job: str | None = None

    @property
    def values(self) -> dict[str, str]:
        """The overrides by key."""
        return dict(split_override(override) for override in self.overrides)


@dataclass
class Sweep:
    """A sweep's folder."""

    path: Path  #: the folder
    command: str  #: the last command that started or resumed it
    overrides: list[str]  #: of the command, before they are expanded into jobs
    config_dir: str | None = None  #: the user's own configuration folder
    max_parallel: int = 1  #: how many jobs the last command ran at a time, as its ``-j`` said
    slurm_job: str | None = None  #: the SLURM job in which the command was last run
    created: str | None = None  #: ISO 8601
    ended: str | None = None  #: when it last ended
    status: RunStatus = RunStatus.RUNNING  #: ``running``, ``finished``, ``failed`` or ``interrupted``
    #: the SHA-256 of each plug-in file that existed when it was last started
    plugins: dict[str, str] = field(default_factory=dict)
    jobs: list[SweepJob] = field(default_factory=list)  #: in the order of their indices

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def is_done(self) -> bool:
        """Whether the sweep has finished, and its jobs' statuses say so, too."""
        return self.status == RunStatus.FINISHED and all(job.status in DONE_STATUSES for job in self.jobs)

    @property
    def status_counts(self) -> str:
        """How many jobs have each status."""
        counts = Counter(job.status for job in self.jobs)
        return ", ".join(f"{counts[status]} {status}" for status in JOB_STATUSES if counts[status])

    @property
    def resume_command(self) -> str:
        """The command that resumes the sweep, with the ``-j`` of the last one."""
        return resume_command(self.path, *config_dir_words(self.config_dir))

    @property
    def swept_keys(self) -> list[str]:
        """The keys in which jobs differ, in the order of the command; for a search also what it will vary."""
        jobs = [job.values for job in self.jobs]
        requested = dict(map(split_override, self.overrides))

        def is_searched(key: str) -> bool:  # the command gives several values, however many jobs there are yet
            override = requested.get(key, "")
            return bool(SEVERAL_VALUES.search(override)) and all(values.get(key) != override for values in jobs)

        keys = dict.fromkeys(key for values in jobs for key in values)
        return [key for key in keys if len({values.get(key) for values in jobs}) > 1 or is_searched(key)]

    def folder(self, job: SweepJob) -> Path:
        """The run folder of a job."""
        return self.path / str(job.index)

    def log(self, job: SweepJob) -> Path:
        """The file with a job's output."""
        return self.folder(job) / LOG_TXT

    def label(self, job: SweepJob, keys: Sequence[str] | None = None) -> str:
        """The overrides in which a job differs from the others; give ``swept_keys`` where many jobs are labeled."""
        keys, values = self.swept_keys if keys is None else keys, job.values
        return " ".join(f"{key}={values[key]}" for key in keys if key in values) or "as asked"


def split_override(override: str) -> tuple[str, str]:
    """The key of an override, without a plus, and its value."""
    key, _, value = override.lstrip("+").partition("=")
    return key, value


def overrides_key(overrides: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Overrides in a canonical order."""
    return tuple(sorted(map(split_override, overrides)))


def reject_repeated(overrides: Iterable[str]) -> None:
    """Reject a key that is set twice: of two values one has no effect."""
    written: dict[str, str] = {}
    for override in overrides:
        bare = override.lstrip("+~")
        key, _ = split_override(bare)
        if key in written:
            raise UserError(f"{key} is set twice, by {written[key]} and {bare}; leave one out")
        written[key] = bare


def is_sweep(folder: Path | str) -> bool:
    """Whether a folder is a sweep's."""
    return (Path(folder) / SWEEP_JSON).is_file()


def sweep_of(run: Path | str) -> Path | None:
    """The folder of the sweep that a run is a job of; None for a single run."""
    path = Path(run).resolve()
    return path.parent if path.name.isdecimal() and is_sweep(path.parent) else None


def is_locked(folder: Path | str) -> bool:
    """Whether a command runs the sweep."""
    return is_lock_held(Path(folder) / SWEEP_LOCK)


def read_sweep(folder: Path | str) -> Sweep:
    """Read a sweep's folder.

    Raises:
        UserError: it is not a sweep's, its record cannot be read, or has a newer format.
    """
    path = Path(folder)
    if not is_sweep(path):
        raise UserError(f"{path}: not the folder of a sweep (it has no {SWEEP_JSON})")
    record = read_mapping(path / SWEEP_JSON, MAX_LIST_BYTES)
    check_format(path / SWEEP_JSON, record.pop("format", None))
    try:
        jobs = [_parse_job(index, job) for index, job in enumerate(record.pop("jobs"))]
        _check_overrides(record["overrides"])
        if type(record.get("max_parallel", 1)) is not int or record.get("max_parallel", 1) < 1:
            raise ValueError("max_parallel is no number of jobs")
        if not isinstance(record["command"], str) or not isinstance(record.get("plugins", {}), dict):
            raise ValueError("command is not a text, or plugins are no mapping")
        record["status"] = RunStatus(str(record.get("status")))
        return Sweep(path=path, jobs=jobs, **{key: value for key, value in record.items() if key != "name"})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"{path / SWEEP_JSON}: damaged ({error}); start over with fresh=true") from error


def _parse_job(index: int, record: dict[str, Any]) -> SweepJob:
    job = SweepJob(**{key: value for key, value in record.items() if key != "folder"})
    if type(job.index) is not int or job.index != index:  # it names the job's folder
        raise ValueError(f"job {index} has the index {job.index!r}")
    if job.status not in JOB_STATUSES:
        raise ValueError(f"job {index} is {job.status!r}")
    job.status = RunStatus(job.status)
    _check_overrides(job.overrides)
    for name in ("started", "ended", "error", "monitor", "match", "cluster_job"):
        if not isinstance(getattr(job, name), str | None):
            raise ValueError(f"{name} of job {index} is not a text")
    if not isinstance(job.best, float | int | None):
        raise ValueError(f"best of job {index} is not a number")
    if type(job.attempts) is not int or not isinstance(job.seconds, float | int):
        raise ValueError(f"attempts or seconds of job {index} is not a number")
    return job


def _check_overrides(overrides: object) -> None:
    if not (isinstance(overrides, list) and all(isinstance(word, str) for word in overrides)):
        raise ValueError(f"overrides are {overrides!r}, not a list of words")


class StepTime(NamedTuple):
    """The content of ``step_time.json``: the seconds of an optimizer step, and the job that measured them.

    ``steps`` is the number of steps that fit into ``max_time``, the training time as HH:MM:SS.
    """

    seconds_per_step: float
    job: int
    max_time: str
    steps: int


def read_step_time(sweep: Path) -> StepTime | None:
    """Read the step time; None before it is measured."""
    content = read_mapping(sweep / STEP_TIME)
    if not content:
        return None
    try:
        step_time = StepTime(**content)
        has_types = type(step_time.job) is int and type(step_time.steps) is int
        if has_types and step_time.seconds_per_step > 0 and seconds(step_time.max_time) is not None:
            return step_time
    except TypeError:
        pass
    raise UserError(f"{sweep / STEP_TIME}: damaged; restore it, or start over with fresh=true")

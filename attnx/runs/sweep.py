"""Reads what a sweep's folder says of itself: which jobs it has, how each stands, and what each is best at."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from attnx.errors import UserError
from attnx.files.bounded_files import LARGEST_LIST
from attnx.runs.layout import LOCK, LOG, SWEEP
from attnx.runs.run import mapping

FORMAT = 1
# How an override asks for several values: 1,2 or range(1,3); a list, [1,2], is one.
SEVERAL = re.compile(r"^(?![\[{'\"]).*[,(]")
Status = Literal["waiting", "running", "finished", "failed", "interrupted", "pruned"]


@dataclass
class SweepJob:
    """One job of a sweep.

    Attributes:
        number: which it is, from 0; its folder bears that name.
        overrides: what it was asked, as on a command line.
        status: ``waiting`` before it began, ``interrupted`` if it can be gone on from, ``pruned`` if a search stopped
            it because others were clearly better.
        started: when it was last started, ISO 8601.
        ended: when it last ended.
        seconds: how long it ran, all attempts together.
        attempts: how often it was started.
        error: what went wrong, in one line.
        monitor: the validation measure that says which weights are best.
        maximize: whether a higher one is better.
        best: its best value so far.
    """

    number: int
    overrides: list[str]
    status: Status = "waiting"
    started: str | None = None
    ended: str | None = None
    seconds: float = 0.0
    attempts: int = 0
    error: str | None = None
    monitor: str | None = None
    maximize: bool = False
    best: float | None = None

    @property
    def choices(self) -> dict[str, str]:
        """What it was asked, by key."""
        return dict(parted(override) for override in self.overrides)


@dataclass
class Sweep:
    """A sweep's folder.

    Attributes:
        path: the folder.
        command: what began it, or went on with it.
        overrides: those of the whole.
        config_dir: a user's own configuration folder.
        plugins: the SHA-256 of each plug-in file that was there when it began, or was gone on with.
        created: when, ISO 8601.
        ended: when it last ended.
        status: how it stands.
        jobs: its jobs.
    """

    path: Path
    command: str
    overrides: list[str]
    config_dir: str | None = None
    created: str | None = None
    ended: str | None = None
    status: Literal["running", "finished", "failed", "interrupted"] = "running"
    plugins: dict[str, str] = field(default_factory=dict)
    jobs: list[SweepJob] = field(default_factory=list)

    @property
    def name(self) -> str:
        """That of its folder."""
        return self.path.resolve().name

    @property
    def varied(self) -> list[str]:
        """The keys by which the jobs differ, in the order of the command; of a search also those it will vary."""
        keys = dict.fromkeys(key for job in self.jobs for key in job.choices)
        return [key for key in keys if len({job.choices.get(key) for job in self.jobs}) > 1 or self._varies(key)]

    def _varies(self, key: str) -> bool:
        """Whether the sweep was asked for several values of a key, however many jobs there are yet."""
        asked = dict(map(parted, self.overrides)).get(key, "")
        return bool(SEVERAL.search(asked)) and all(job.choices.get(key) != asked for job in self.jobs)

    def folder(self, job: SweepJob) -> Path:
        """The run folder of a job."""
        return self.path / str(job.number)

    def log(self, job: SweepJob) -> Path:
        """What a job said."""
        return self.folder(job) / LOG

    def told(self, job: SweepJob) -> str:
        """A job in a few words: what makes it differ from the others."""
        return " ".join(f"{key}={job.choices[key]}" for key in self.varied if key in job.choices) or "as asked"


def parted(override: str) -> tuple[str, str]:
    """The key of an override, without a plus, and its value."""
    key, _, value = override.lstrip("+").partition("=")
    return key, value


def is_sweep(folder: Path | str) -> bool:
    """Whether a folder is that of a sweep."""
    return (Path(folder) / SWEEP).is_file()


def sweep_of(run: Path | str) -> Path | None:
    """The folder of the sweep whose job a run is; None for a run of its own."""
    path = Path(run).resolve()
    return path.parent if path.name.isdecimal() and is_sweep(path.parent) else None


def at_work(folder: Path | str) -> bool:
    """Whether a command holds a sweep's folder, or jobs do that a killed one left behind."""
    import fcntl  # which not every system has, while all can read

    try:
        file = os.open(Path(folder) / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def read_sweep(folder: Path | str) -> Sweep:
    """Read a sweep's folder.

    Raises:
        UserError: it is not one, its file cannot be read, or its format is too new.
    """
    path = Path(folder)
    if not is_sweep(path):
        raise UserError(f"{path}: not the folder of a sweep (it has no {SWEEP})")
    held = mapping(path / SWEEP, LARGEST_LIST)
    number = held.pop("format", None)
    if type(number) is not int or not 1 <= number <= FORMAT:
        raise UserError(f"{path / SWEEP}: format {number!r} is not one of 1 to {FORMAT}, which are known here")
    try:
        jobs = [_job(number, job) for number, job in enumerate(held.pop("jobs"))]
        _check_words(held["overrides"])
        return Sweep(path=path, jobs=jobs, **{key: value for key, value in held.items() if key != "name"})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"{path / SWEEP}: not whole ({error}); start over with fresh=true") from error


def _job(number: int, held: dict[str, Any]) -> SweepJob:
    job = SweepJob(**{key: value for key, value in held.items() if key != "folder"})
    if type(job.number) is not int or job.number != number:  # it names the job's folder
        raise ValueError(f"job {number} says that it is number {job.number!r}")
    if job.status not in get_args(Status):
        raise ValueError(f"job {job.number} is {job.status!r}")
    _check_words(job.overrides)
    for name in ("started", "ended", "error", "monitor"):
        if not isinstance(getattr(job, name), str | None):
            raise ValueError(f"{name} of job {job.number} is no text")
    for name in ("seconds", "attempts", "best"):
        if not isinstance(getattr(job, name), float | int | None):
            raise ValueError(f"{name} of job {job.number} is no number")
    return job


def _check_words(overrides: object) -> None:
    if not (isinstance(overrides, list) and all(isinstance(word, str) for word in overrides)):
        raise ValueError(f"overrides are {overrides!r}, not a list of words")

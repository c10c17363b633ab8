"""Finds the runs in folders, of sweeps or loose, and reads of each what a comparison needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnx.config.view import dotted_keys
from attnx.errors import UserError
from attnx.files.bounded_files import read_rows
from attnx.runs.layout import CONFIG, LOG, METRICS, PROGRESS, RUN
from attnx.runs.naming import RUNS
from attnx.runs.run import mapping, plugin_facts, read_info, read_results
from attnx.runs.sweep import Sweep, SweepJob, at_work, is_sweep, parted, read_sweep

# What makes no setting: the seed, where a run lies, and who is told of it.
ASIDE = ("seed", "name", "folder", "logger", "profile", "hydra")
DATA = "training data"
UNREADABLE = "unreadable"


@dataclass
class Found:
    """One run, however it ended.

    Attributes:
        path: its folder.
        told: what makes it differ from others of its sweep, or its name.
        status: ``finished``, as in sweep.json and run.json, or ``unreadable``.
        seed: None if it is not known.
        choices: what was chosen, flat: ``scorer``, ``scorer.hidden_size``; seed and names aside.
        results: the numbers of results.json.
        curves: column of metrics.csv -> step -> value.
        monitor: the validation measure that decides.
        maximize: whether more of it is better.
        created: when, ISO 8601.
        budget: ``time`` if it went by its clock, ``steps`` if not; "" if that is not known.
        error: one line, if it failed or cannot be read.
    """

    path: Path
    told: str
    status: str
    seed: int | None = None
    choices: dict[str, Any] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    monitor: str = ""
    maximize: bool = False
    created: str = ""
    budget: str = ""
    error: str = ""

    @property
    def log(self) -> Path | None:
        """What it said, if that was kept."""
        return self.path / LOG if (self.path / LOG).is_file() else None


def gather(folders: Sequence[Path | str]) -> list[Found]:
    """Read the runs in folders: of a run, of a sweep, or of a folder that holds such; each once.

    What lies in a folder's ``runs`` lies in it, too: there ``multirun`` has its single runs.

    Raises:
        UserError: a folder is none of these, or nothing in any of them can be read.
    """
    found = {run.path.resolve(): run for folder in folders for run in _in(Path(folder))}
    runs = list(found.values())
    if runs and all(run.status == UNREADABLE for run in runs):
        raise UserError(runs[0].error)
    _name_data(runs)
    return runs


def _name_data(found: Sequence[Found]) -> None:
    """Call training data ``data 1``, ``data 2`` in the order of their first runs: nobody can read fingerprints."""
    by_age = sorted(found, key=lambda run: run.created)
    names: dict[str, str] = {}
    for run in by_age:
        if DATA in run.choices:
            run.choices[DATA] = names.setdefault(run.choices[DATA], f"data {len(names) + 1}")


def _in(folder: Path) -> Iterator[Found]:
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; name runs, sweeps, or a folder that holds some")
    if is_sweep(folder) or (folder / RUN).is_file():
        yield from _named(folder)
    else:
        places = [*folder.iterdir(), *(folder / RUNS.name).glob("*")]
        within = sorted(one for one in places if is_sweep(one) or (one / RUN).is_file())
        if not within:
            raise UserError(f"{folder}: neither a run nor a sweep, and holds none")
        for one in within:
            yield from _named(one)


def _named(folder: Path) -> Iterator[Found]:
    """The jobs of a sweep, or a run; what cannot be read is no reason to leave out others."""
    try:
        if is_sweep(folder):
            yield from _of_sweep(read_sweep(folder))
        else:
            read_info(folder)
            yield _read(folder, folder.resolve().name)
    except UserError as error:
        yield Found(folder, folder.resolve().name, UNREADABLE, error=str(error))


def _of_sweep(sweep: Sweep) -> Iterator[Found]:
    going = at_work(sweep.path)
    for job in sweep.jobs:
        if job.status == "running" and not going:  # whoever was to write what became of it was killed
            job.status = "interrupted"
        try:
            yield _read(sweep.folder(job), sweep.told(job), job)
        except UserError as error:
            yield Found(sweep.folder(job), sweep.told(job), UNREADABLE, error=str(error))


def _read(folder: Path, told: str, job: SweepJob | None = None) -> Found:
    info = read_info(folder) if (folder / RUN).is_file() else {}
    results, asked = read_results(folder), info.get("overrides") or (job.overrides if job else [])
    config = mapping(folder / CONFIG) or _asked(asked)
    status = str(job.status if job else info.get("status", "unknown"))
    if info.get("status") == "finished" and results:
        status = "finished"
    elif status == "finished":
        status = "without results"
    chosen = dotted_keys({key: value for key, value in config.items() if key not in ASIDE})
    if info.get("fingerprint"):
        chosen[DATA] = info["fingerprint"]
    # Like a knob of the part: it sets runs apart that use the same part.
    chosen |= {f"{kind}.{name} code": facts.get("code") for (kind, name), facts in plugin_facts(info).items()}
    return Found(
        path=folder,
        told=told,
        status=status,
        seed=config.get("seed"),
        choices=chosen,
        results={name: value for name, value in results.items() if value is not None and math.isfinite(value)},
        curves=_curves(folder / METRICS),
        monitor=str(info.get("monitor") or ""),
        maximize=bool(info.get("maximize")),
        created=str(info.get("created") or ""),
        budget=str(info.get("budget") or ""),
        error="" if status == "finished" else _error(folder, info, job),
    )


def _asked(overrides: Iterable[str]) -> dict[str, Any]:
    """What is known of the configuration of a run that wrote none."""
    asked: dict[str, Any] = dict(map(parted, overrides))
    if str(asked.get("seed", "")).isdecimal():
        asked["seed"] = int(asked["seed"])
    return asked


def _curves(path: Path) -> dict[str, dict[int, float]]:
    """Column -> step -> value; a cell that is no finite number is left out, as one half written would be."""
    found: dict[str, dict[int, float]] = {}
    if not path.is_file():
        return found
    for row in read_rows(path):
        if (step := _number(row.get("step"))) is not None and step.is_integer():
            for name, text in row.items():
                if name and name != "step" and (value := _number(text)) is not None:
                    found.setdefault(name, {})[int(step)] = value
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except (ValueError, TypeError):
        return None
    return value if abs(value) < float("inf") else None


def _error(folder: Path, info: Mapping[str, Any], job: SweepJob | None) -> str:
    """What went wrong, as the sweep, the run or the job says."""
    try:
        said = mapping(folder / PROGRESS).get("error")
    except UserError:  # half written
        said = None
    return str((job and job.error) or info.get("error") or said or "")

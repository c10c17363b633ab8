"""Loads the runs in folders, single ones and jobs of sweeps, for a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attnx.config.view import DATA, dotted_keys
from attnx.errors import UserError
from attnx.reports.run.evaluated_examples import EvaluatedExamples, read_examples
from attnx.reports.sweep.run_record import EARLIEST, RunRecord
from attnx.reports.sweep.run_table import read_run_table
from attnx.reports.sweep.settings import override_choice
from attnx.runs.info import RunStatus, plugin_records
from attnx.runs.layout import LOG_TXT, RUN_JSON, RUNS
from attnx.runs.results import read_costs
from attnx.runs.run import Run
from attnx.runs.sweep import SweepJob, is_locked, is_sweep, read_sweep, split_override

# Keys that are not part of a setting: the seed, the folder, and the loggers.
IGNORED_KEYS = ("seed", "name", "folder", "logger", "hydra")
COMMIT_LENGTH = 12
TABLE = ".csv"


def load_runs(folders: Sequence[Path | str]) -> list[RunRecord]:
    """Load the runs in folders, each once: a run, a sweep, or a folder that holds such; and in tables of runs.

    The single runs in ``multirun/runs`` count as runs of ``multirun``.

    Raises:
        UserError: a folder is none of these, nothing in any of them can be read, or a table cannot be read.
    """
    unique = {run.path.resolve(): run for folder in folders for run in _runs_in(Path(folder))}
    runs = list(unique.values())
    if runs and all(run.status == RunStatus.UNREADABLE for run in runs):
        raise UserError(runs[0].error)
    data_names: dict[str, str] = {}  # by the fingerprint of the data, in the order of first runs
    for run in sorted(runs, key=lambda run: run.created_at or EARLIEST):
        if run.data:
            run.choices[DATA] = data_names.setdefault(run.data, f"data {len(data_names) + 1}")
    return runs


def _runs_in(folder: Path) -> Iterator[RunRecord]:
    if folder.suffix == TABLE and folder.is_file():
        yield from read_run_table(folder)
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; name runs, sweeps, a folder that holds some, or a table of runs")
    entries = [folder] if _is_run_or_sweep(folder) else [*folder.iterdir(), *(folder / RUNS.name).glob("*")]
    # A hidden one is being deleted.
    members = sorted(entry for entry in entries if _is_run_or_sweep(entry) and not entry.name.startswith("."))
    if not members:
        raise UserError(f"{folder}: neither a run nor a sweep, and holds none")
    for member in members:
        name = member.resolve().name
        try:
            yield from _load_jobs(member) if is_sweep(member) else [_load(Run(member), name)]
        except UserError as error:
            yield RunRecord(member, name, RunStatus.UNREADABLE, error=str(error))


def _is_run_or_sweep(folder: Path) -> bool:
    return is_sweep(folder) or (folder / RUN_JSON).is_file()


def _load_jobs(folder: Path) -> Iterator[RunRecord]:
    """The jobs of a sweep; one that cannot be read does not hide the others."""
    sweep = read_sweep(folder)
    is_running, keys = is_locked(sweep.path), sweep.swept_keys
    for job in sweep.jobs:
        if job.status == RunStatus.RUNNING and not is_running:  # the sweep was killed
            job.status = RunStatus.INTERRUPTED
        run, label = Run(sweep.folder(job)), sweep.label(job, keys)
        try:
            yield _load(run, label, job)
        except UserError as error:
            yield RunRecord(run.path, label, RunStatus.UNREADABLE, error=str(error))


def _load(run: Run, label: str, job: SweepJob | None = None) -> RunRecord:
    info = run.info if job is None or (run.path / RUN_JSON).is_file() else {}
    overrides = map(split_override, info.get("overrides") or (job.overrides if job else []))
    config = run.config or {key: override_choice(key, value) for key, value in overrides}
    if str(config.get("seed", "")).isdecimal():  # from an override, since no configuration was written
        config["seed"] = int(config["seed"])
    choices = dotted_keys({key: value for key, value in config.items() if key not in IGNORED_KEYS})
    # Like an option of the part: runs of the same part with other code differ in it.
    choices |= {f"{kind}.{name} code": facts.get("code") for (kind, name), facts in plugin_records(info).items()}
    curves = {
        column: {step: value for step, value in curve.items() if math.isfinite(value)}
        for column, curve in run.curves.items()
    }
    git = info.get("git") or {}
    commit = str(git.get("commit") or "")
    recorded = RunStatus(str(info.get("status")))
    is_finished = recorded == RunStatus.FINISHED and bool(run.results)
    status = recorded if is_finished or job is None else job.status
    if status == RunStatus.FINISHED and not is_finished:
        status = RunStatus.WITHOUT_RESULTS
    results, log = {**run.results, **read_costs(run.path)}, run.path / LOG_TXT
    examples = EvaluatedExamples()
    with suppress(OSError, UserError, ValueError, KeyError):  # what cannot be read hides no result
        examples = read_examples(run.path) if status == RunStatus.FINISHED else examples
    error = (job and job.error) or info.get("error") or run.progress.error or ""
    return RunRecord(
        path=run.path,
        label=label,
        status=status,
        seed=config.get("seed"),
        choices=choices,
        results={name: value for name, value in results.items() if value is not None},
        intervals=run.intervals,
        signatures=run.signatures,
        curves={column: curve for column, curve in curves.items() if curve},
        maximize=bool(info.get("maximize")),
        monitor=str(info.get("monitor") or ""),
        created=str(info.get("created") or ""),
        budget=str(info.get("budget") or ""),
        commit=commit[:COMMIT_LENGTH] + ("+" if commit and git.get("changed") else ""),
        machine=str(info.get("machine") or ""),
        data=str(info.get("fingerprint") or ""),
        examples=examples,
        log=log if log.is_file() else None,
        error="" if status == RunStatus.FINISHED else str(error),
    )

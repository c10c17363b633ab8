"""Tells the loggers of a run: what it is when it begins, what it drew when it is over, and how it ended."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from attnx.config.groups import CHOSEN
from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.errors import Interrupted
from attnx.files.printable import printable
from attnx.loggers.contract import RunStart
from attnx.registry.source_scan import MULTI_SELECT_KINDS
from attnx.reports.display_name import display_name
from attnx.reports.figures.heatmaps import MAX_PANELS_ON_PAGE, draw_page, save
from attnx.reports.figures.local_windows import read_window
from attnx.reports.run.readme import write_readme
from attnx.runs.alignments import read_examples
from attnx.runs.layout import (
    ALIGNMENTS,
    ALIGNMENTS_PICTURE,
    METRICS,
    PAGE,
    POINTS_PICTURE,
    PREDICTIONS,
    PREDICTIONS_PICTURE,
)
from attnx.runs.run import Run, read_run
from attnx.runs.status import RunStatus
from attnx.runs.sweep import sweep_of
from attnx.training import run_folder
from attnx.training.callbacks.heat_maps import HeatMaps
from attnx.training.distributed import process_group
from attnx.training.train import PreparedRun

# The parts that a run is tagged with, and what of run.json goes beside the configuration.
TAGGED = ("task", "model", "attention", "scorer", "scope", "query", "normalizer")
FACTS = ("command", "schedule", "follows", "kernels", "compiler", "compiled", "parameters", "data", "versions", "git")


@contextmanager
def recorded(job: PreparedRun, folder: Path, console: Console) -> Iterator[None]:
    """Log what happens within to the loggers that were chosen, if any were."""
    if not job.loggers:
        yield
        return

    def tell(line: str) -> None:
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    try:
        kept = job.loggers.start(_beginning(read_run(folder), job.config)._replace(report=tell))
        run_folder.note(folder, logged=kept)
        job.callbacks.append(_heat_maps(job))
        yield
        job.loggers.show(read_run(folder).results["steps"], _drawn(folder))
    except BaseException as error:
        stopped = isinstance(error, Interrupted | KeyboardInterrupt)
        _end(job, folder, RunStatus.INTERRUPTED if stopped else RunStatus.FAILED, tell)
        raise
    _end(job, folder, RunStatus.FINISHED, tell)


def _end(job: PreparedRun, folder: Path, end: RunStatus, tell: Any) -> None:
    """Finish; what is left to the user is said, and kept in the folder's README."""
    process_group.mark_finishing()
    before = read_run(folder)
    summary = _summary(before, job.experiment.task.monitor, job.experiment.task.maximize)
    left = job.loggers.finish(end, summary)
    for name, command in left.items():
        tell(f"{name}: upload what was recorded with: {command}")
    if left or before.info.get("left"):
        run_folder.note(folder, left=left)
        write_readme(folder)


def _beginning(run: Run, config: Mapping[str, Any]) -> RunStart:
    chosen = {kind: config[kind] for kind in CHOSEN if kind in config}
    names = {kind: [*node] if kind in MULTI_SELECT_KINDS else [node["name"]] for kind, node in chosen.items()}
    sweep = sweep_of(run.path)
    return RunStart(
        folder=run.path,
        name=display_name(run, config),
        group=sweep.name if sweep else run.info.get("name"),
        tags=[f"{kind}={name}" for kind in TAGGED for name in names.get(kind, [])],
        config={
            **{key: value for key, value in config.items() if key != "folder"},
            "choices": {kind: "+".join(held) for kind, held in names.items()},
            "run": {"folder": str(run.path), **{key: run.info[key] for key in FACTS if key in run.info}},
        },
        state=run.info.get("logged", {}),
        report=print,
    )


def _heat_maps(job: PreparedRun) -> HeatMaps:
    """Show at each validation how a few of its examples are read, evenly from short to long."""
    rows = job.loaders.valid_rows
    pairs = job.loaders.data.pairs.valid
    by_length = sorted(range(len(pairs)), key=lambda row: len(pairs[row].source))
    chosen = sorted(by_length[index] for index in evenly_spaced_indices(len(by_length), MAX_PANELS_ON_PAGE))

    def draw(step: int, decoded: list[Any]) -> None:
        with TemporaryDirectory() as place:
            run_folder.save_alignments(Path(place), decoded)
            bests = [next(iter(hypotheses.values())) for hypotheses in read_examples(place)]
            if bests:
                picture = save(draw_page(bests, read_window(job.config)), Path(place) / ALIGNMENTS_PICTURE)
                job.loggers.show(step, {"valid/alignments": picture})

    return HeatMaps([pairs[row] for row in chosen], [rows[row] for row in chosen], draw)


def _drawn(folder: Path) -> dict[str, Path]:
    """What of a finished run can be shown: predictions, heat maps, and the page of its alignments."""
    return {
        "test/predictions": folder / PREDICTIONS,
        "test/alignments": folder / ALIGNMENTS_PICTURE,
        "test/tracks": folder / PREDICTIONS_PICTURE,
        "test/points": folder / POINTS_PICTURE,
        "test/page": folder / PAGE,
        **{f"heat_maps/{path.stem}": path for path in sorted((folder / ALIGNMENTS).glob("*.png"))},
    }


def _summary(run: Run, monitor: str, maximize: bool) -> dict[str, float]:
    """The best validation by its step, and the test's values as far as the run came."""
    found = {name: float(value) for name, value in run.results.items() if value is not None}
    path = run.path / METRICS
    if not path.is_file():
        return found
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]
    rows = [row for row in rows if monitor in row]
    if not rows:
        return found
    best = min(rows, key=lambda row: row[monitor] * (-1 if maximize else 1))
    measured = {f"best/{name}": value for name, value in best.items() if name.startswith("valid_")}
    return {**found, **measured, "best/step": best["step"]}

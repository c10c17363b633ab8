"""The session of a run's loggers: its start, the pictures of validations and of the end, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from attnx.config.groups import PART_GROUPS
from attnx.config.view import names_text
from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.errors import Interrupted, UserError
from attnx.files.printable import printable
from attnx.inference.write_alignments import save_alignments
from attnx.loggers.contract import RunStart
from attnx.registry.source_scan import MULTI_SELECT_KINDS
from attnx.reports.display_name import display_name
from attnx.reports.figures.heatmaps import MAX_PANELS_ON_PAGE, draw_alignments_page, save_figure
from attnx.reports.figures.local_windows import read_window
from attnx.reports.run.readme import write_run_readme
from attnx.runs.alignments import read_best_alignments
from attnx.runs.info import update_info
from attnx.runs.layout import ALIGNMENTS, ALIGNMENTS_PICTURE, PAGE, POINTS_PICTURE, PREDICTIONS, PREDICTIONS_PICTURE
from attnx.runs.run import Run, read_run
from attnx.runs.status import RunStatus
from attnx.training.callbacks.heat_maps import HeatMaps
from attnx.training.distributed import process_group
from attnx.training.train import PreparedRun

# The kinds of parts that a run is tagged with, and the values of run.json that loggers get with the configuration.
TAGGED_KINDS = ("task", "model", "attention", "scorer", "scope", "query", "normalizer")
LOGGED_INFO = (
    "command", "schedule", "derived", "kernels", "compiler", "compiled", "parameters", "data", "versions", "git"
)  # fmt: skip


@contextmanager
def logger_session(prepared: PreparedRun, folder: Path, console: Console) -> Iterator[None]:
    """Start the configured loggers, if there are any, and finish them however the run ends."""
    if not prepared.loggers:
        yield
        return

    def show_line(line: str) -> None:
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    try:
        start = _run_start(read_run(folder), prepared.config)._replace(report=show_line)
        update_info(folder, logged=prepared.loggers.start(start))
        prepared.callbacks.append(_heat_maps(prepared))
        yield
        prepared.loggers.show(read_run(folder).results["steps"], _pictures(folder))
    except BaseException as error:
        is_interrupted = isinstance(error, Interrupted | KeyboardInterrupt)
        _finish(prepared, folder, RunStatus.INTERRUPTED if is_interrupted else RunStatus.FAILED, show_line)
        raise
    _finish(prepared, folder, RunStatus.FINISHED, show_line)


def _finish(prepared: PreparedRun, folder: Path, status: RunStatus, show_line: Any) -> None:
    """Finish the loggers; commands that the user has to run are shown, and written into the folder's README."""
    process_group.mark_finishing()
    run = read_run(folder)
    task = prepared.module.task
    commands = prepared.loggers.finish(status, _summary(run, task.monitor, task.maximize))
    for name, command in commands.items():
        show_line(f"{name}: upload what was recorded with: {command}")
    if commands or run.info.get("uploads"):
        update_info(folder, uploads=commands)
        write_run_readme(folder)


def _run_start(run: Run, config: Mapping[str, Any]) -> RunStart:
    nodes = {kind: config[kind] for kind in PART_GROUPS if kind in config}
    names = {kind: [*node] if kind in MULTI_SELECT_KINDS else [node["name"]] for kind, node in nodes.items()}
    return RunStart(
        folder=run.path,
        name=display_name(run, config),
        group=run.sweep.name if run.sweep else run.info.get("name"),
        tags=[f"{kind}={name}" for kind in TAGGED_KINDS for name in names.get(kind, [])],
        config={
            **{key: value for key, value in config.items() if key != "folder"},
            "choices": {kind: names_text(kind_names) for kind, kind_names in names.items()},
            "run": {"folder": str(run.path), **{key: run.info[key] for key in LOGGED_INFO if key in run.info}},
        },
        state=run.info.get("logged", {}),
        report=print,
    )


def _heat_maps(prepared: PreparedRun) -> HeatMaps:
    """A callback that shows the alignments of some validation examples, evenly from short to long."""
    rows = prepared.loaders.valid_rows
    pairs = prepared.loaders.data.pairs.valid
    by_length = sorted(range(len(pairs)), key=lambda row: len(pairs[row].source))
    indices = sorted(by_length[index] for index in evenly_spaced_indices(len(by_length), MAX_PANELS_ON_PAGE))

    def draw(step: int, predictions: list[Any]) -> None:
        with TemporaryDirectory() as folder:
            save_alignments(Path(folder), predictions)
            best = read_best_alignments(folder)
            if best:
                picture = save_figure(
                    draw_alignments_page(best, read_window(prepared.config)), Path(folder) / ALIGNMENTS_PICTURE
                )
                prepared.loggers.show(step, {"valid/alignments": picture})

    return HeatMaps([pairs[index] for index in indices], [rows[index] for index in indices], draw)


def _pictures(folder: Path) -> dict[str, Path]:
    """The files of a finished run that loggers show: predictions, heat maps, and the page of alignments."""
    return {
        "test/predictions": folder / PREDICTIONS,
        "test/alignments": folder / ALIGNMENTS_PICTURE,
        "test/tracks": folder / PREDICTIONS_PICTURE,
        "test/points": folder / POINTS_PICTURE,
        "test/page": folder / PAGE,
        **{f"heat_maps/{path.stem}": path for path in sorted((folder / ALIGNMENTS).glob("*.png"))},
    }


def _summary(run: Run, monitor: str, maximize: bool) -> dict[str, float]:
    """The results, and the values of the best validation with its step."""
    summary = {name: float(value) for name, value in run.results.items() if value is not None}
    try:
        curves = run.curves
    except UserError:  # a loggers' summary must not hide why the run ended
        return summary
    curve = curves.get(monitor)
    if not curve:
        return summary
    best = min(curve, key=lambda step: curve[step] * (-1 if maximize else 1))
    values = {
        f"best/{name}": curves[name][best] for name in curves if name.startswith("valid_") and best in curves[name]
    }
    return {**summary, **values, "best/step": best}

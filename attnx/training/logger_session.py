"""The session of a run's loggers: its start, the pictures of validations and of the end, and how it ended."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from attnx.config.groups import PART_GROUPS, changed_options
from attnx.config.view import names_text, value_text
from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.loggers.contract import RunStart
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.reports.run.readme import write_run_readme
from attnx.runs.info import RunStatus, update_info
from attnx.runs.layout import ALIGNMENTS, ALIGNMENTS_PICTURE, PAGE, PREDICTIONS, PREDICTIONS_PICTURE
from attnx.runs.run import Run, read_run
from attnx.runs.sweep import read_sweep
from attnx.training.callbacks.checkpoint import LOSS, validation_key
from attnx.training.distributed import process_group
from attnx.training.failure_report import is_deleted
from attnx.training.train import PreparedRun

# The kinds of parts that a run is tagged with, and the values of run.json that loggers get with the configuration.
TAGGED_KINDS = ("task", "model", "attention", "scorer", "scope", "query", "normalizer")
LOGGED_INFO = (
    "command", "schedule", "derived", "kernels", "compiler", "compiled", "parameters", "flops", "data",
    "versions", "git", "machine"
)  # fmt: skip
MAX_LENGTH = 120  # characters of a name
# Keys that are not part of a name: the folder, and the loggers.
IGNORED_KEYS = ("name", "folder", "logger")
ShowLine = Callable[[str], None]


@contextmanager
def logger_session(prepared: PreparedRun, folder: Path, console: Console) -> Iterator[None]:
    """Start the configured loggers, if there are any, and finish them however the run ends."""
    if not prepared.loggers:
        yield
        return

    def show_line(line: str) -> None:
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    status = RunStatus.FAILED
    try:
        start = _run_start(read_run(folder), prepared.config, show_line)
        update_info(folder, logged=prepared.loggers.start(start))
        yield
        prepared.loggers.show(read_run(folder).results["steps"], _pictures(folder, prepared.module.task.pictures))
        status = RunStatus.FINISHED
    except KeyboardInterrupt:
        status = RunStatus.INTERRUPTED
        raise
    finally:
        _finish(prepared, folder, status, show_line)


def _finish(prepared: PreparedRun, folder: Path, status: RunStatus, show_line: ShowLine) -> None:
    """Finish the loggers; commands that the user has to run are shown, and written into the folder's README."""
    process_group.mark_finishing()
    if is_deleted(folder):
        prepared.loggers.finish(status, {})
        return
    run = read_run(folder)
    task = prepared.module.task
    commands = prepared.loggers.finish(status, _summary(run, task.monitor, task.maximize))
    for name, command in commands.items():
        show_line(f"{name}: upload what was recorded with: {command}")
    if commands or run.info.get("uploads"):
        update_info(folder, uploads=commands)
        write_run_readme(folder)


def _run_start(run: Run, config: Mapping[str, Any], show_line: ShowLine) -> RunStart:
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
        report=show_line,
    )


def _pictures(folder: Path, drawn_by_task: Iterable[str]) -> dict[str, Path]:
    """The files of a finished run that loggers show: predictions, heat maps, and the page of alignments."""
    return {
        "test/predictions": folder / PREDICTIONS,
        "test/alignments": folder / ALIGNMENTS_PICTURE,
        "test/tracks": folder / PREDICTIONS_PICTURE,
        **{f"test/{Path(name).stem}": folder / name for name in drawn_by_task},
        "test/page": folder / PAGE,
        **{f"heat_maps/{path.stem}": path for path in sorted((folder / ALIGNMENTS).glob("*.png"))},
    }


def _summary(run: Run, monitor: str, maximize: bool) -> dict[str, float]:
    """The results, and the values of the best validation, that of the best checkpoint, with its step."""
    summary = {name: float(value) for name, value in run.results.items() if value is not None}
    curves: Mapping[str, Mapping[int, float]] = {}
    with suppress(UserError):  # a summary must not hide why the run ended
        curves = run.curves
    if curve := {step: value for step, value in curves.get(monitor, {}).items() if value == value}:  # no NaN
        losses = curves.get(LOSS, {})
        best = min(curve, key=lambda step: validation_key(curve[step], losses.get(step, math.nan), maximize))
        valid = {name: curve for name, curve in curves.items() if name.startswith("valid_") and best in curve}
        summary |= {**{f"best/{name}": curve[best] for name, curve in valid.items()}, "best/step": best}
    return summary


def display_name(run: Run, config: Mapping[str, Any]) -> str:
    """The options in which a job differs from the others of its sweep, or a run from the default composition.

    A single run goes by the name it was given, if any; the only job of a sweep by its overrides; a run without any
    difference by its folder.
    """
    folder, name = run.path.resolve().name, run.info.get("name")
    if run.sweep:
        sweep = read_sweep(run.sweep)
        name = next((sweep.label(job) for job in sweep.jobs if job.index == int(folder) and sweep.swept_keys), "")
    words = [word.lstrip("+") for word in run.info.get("overrides", [])]
    overrides = " ".join(word for word in words if word.partition("=")[0].partition(".")[0] not in IGNORED_KEYS)
    changed = changed_options({key: value for key, value in config.items() if key not in IGNORED_KEYS})
    differences = " ".join(f"{key}={value_text(value)}" for key, value in changed.items())
    text = name or overrides or differences or folder
    if len(text.split()[0]) > MAX_LENGTH:  # no whole word fits
        return f"{text[: MAX_LENGTH - 4]} ..."
    return textwrap.shorten(text, MAX_LENGTH, placeholder=" ...")

"""The logger ``wandb``."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from attnx.errors import one_line
from attnx.loggers.contract import RunStart
from attnx.loggers.wandb_server import (
    STOP_SECONDS,
    CallTimeout,
    call_with_timeout,
    offline_reason,
    stop_service,
    unreachable_reason,
)
from attnx.registry import PositiveFloat, register
from attnx.runs.info import RunStatus
from attnx.runs.layout import BEST, CHECKPOINTS, CONFIG_YAML, LAST, RUN_JSON, VOCABULARY, WANDB
from attnx.runs.predictions import read_table

# W&B's exit codes of runs; 255 is its code for a run that was stopped by hand.
EXIT_CODES: dict[RunStatus, int] = {RunStatus.FINISHED: 0, RunStatus.FAILED: 1, RunStatus.INTERRUPTED: 255}
MAX_TAG_LENGTH = 64
USER_DATA_FOLDER = os.environ.get("WANDB_DATA_DIR")
MAX_TABLE_ROWS = 10_000  # W&B shows no more
NUMBER = re.compile(r"-?\d+(\.\d+)?")
INCOMPLETE = "incomplete"  # file that marks a recording of which the server has only a part


@register("logger", "wandb")
class Wandb:
    """Weights & Biases: one W&B run per job, in a group of its sweep, tagged with its parts; curves, pictures, tables.

    Formula: ``a job -> a run of project, in the group of its sweep, with one tag per part``
    Source: Weights & Biases, https://docs.wandb.ai

    Everything is first recorded in the run folder, in ``wandb/``. Without a key, or if the server does not answer
    within ``timeout`` seconds, nothing is uploaded; the command that uploads it later is printed at the end and is in
    the folder's README. A server that is lost while training costs no training time, and at the end at most twice
    ``timeout`` and a few seconds. ``artifact`` uploads the best checkpoint with the files that ``attnx.open_run``
    needs.
    """

    def __init__(
        self,
        project: str = "attnx",
        entity: str | None = None,
        group: str | None = None,
        tags: list[str] | None = None,
        offline: bool = False,
        artifact: bool = False,
        timeout: PositiveFloat = 10.0,
    ) -> None:
        self.project, self.entity, self.group, self.tags = project, entity, group, tags or []
        self.offline, self.artifact, self.timeout = offline, artifact, timeout

    def start(self, run: RunStart) -> Mapping[str, Any]:
        """Start a run, or resume it under its id."""
        # W&B sends reports of its own errors to the same server, and waits for them when the process ends.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ.setdefault("WANDB_HTTP_TIMEOUT", str(math.ceil(self.timeout)))  # read at the import
        if USER_DATA_FOLDER is None:  # where W&B prepares tables and artifacts; else in the user's home
            os.environ["WANDB_DATA_DIR"] = str((run.folder / WANDB).absolute())
        import wandb

        self._wandb, self._start = wandb, run
        self._id = str(run.state.get("id") or secrets.token_hex(4))
        mode = os.environ.get("WANDB_MODE", "")
        if mode == "disabled":
            self._run = self._init("disabled")
            run.report("wandb: WANDB_MODE=disabled; nothing is recorded")
        elif reason := self._offline_reason(mode) or self._try_online():
            self._run = self._init("offline")
            run.report(f"wandb: {reason}; recording offline")
        else:
            run.report(f"wandb: {self._run.url}")
        return {"id": self._id, "project": self.project}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log a row, unless a run that was killed and resumed has logged the step already."""
        if step >= self._run.step:
            self._run.log(dict(values), step=step)

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Log pictures, tables and pages."""

        def log_media() -> None:
            media = {name: as_media(path) for name, path in files.items()}
            self._run.log(media, step=max(step, self._run.step))

        if any(path.suffix == ".tsv" for path in files.values()):
            self._with_server(log_media)  # a table needs the server
        elif files:
            log_media()

    def finish(self, status: RunStatus, summary: Mapping[str, float]) -> str:
        """Finish with the run's status; return the command that uploads what is not uploaded."""
        try:
            if self.artifact and status == RunStatus.FINISHED:
                artifact = model_artifact(self._start.folder, f"model-{self._id}")
                self._with_server(lambda: self._run.log_artifact(artifact))
            self._run.summary.update(dict(summary))
        finally:
            is_complete = self._close(EXIT_CODES[status])
        if not is_complete:
            self._start.report(f"wandb: the server did not take everything within {self.timeout:g} s; all is kept here")
        return sync_command(unsynced(self._start.folder))

    def _offline_reason(self, mode: str) -> str:
        """Why the server is not tried; "" if it is."""
        if self.offline:
            return "logger.wandb.offline=true"
        if mode in ("offline", "dryrun"):
            return f"WANDB_MODE={mode}"
        if unsynced(self._start.folder):
            return "an earlier part of this run is not uploaded yet"  # parts can only be uploaded in order
        return offline_reason(self._wandb.setup().settings, self.timeout)

    def _try_online(self) -> str:
        """Start online; if that fails, delete the recording and return the reason."""
        previous = {*recordings(self._start.folder)}
        try:
            self._run = self._init("online")
        except Exception as error:
            stop_service(self._wandb)  # its process has the id reserved
            for recording in {*recordings(self._start.folder)} - previous:
                shutil.rmtree(recording)
            return one_line(error)
        return ""

    def _with_server(self, act: Callable[[], Any]) -> None:
        """Call what needs the server; if it fails, continue offline in a second recording."""
        if not self._run.offline and not self._run.disabled:
            problem = unreachable_reason(self._run.settings.base_url, self.timeout)
            if not problem:
                try:
                    act()
                    return
                except Exception as error:
                    problem = one_line(error)
            self._close(0)
            stop_service(self._wandb)
            self._run = self._init("offline")
            self._start.report(f"wandb: {problem}; recording offline from here")
        act()

    def _close(self, exit_code: int) -> bool:
        """Finish a recording; return whether it is complete: at the server, or offline."""
        folder, is_complete = Path(self._run.dir).parent, False
        try:
            with contextlib.redirect_stderr(io.StringIO()) as output:
                call_with_timeout(self.timeout + STOP_SECONDS, lambda: self._run.finish(exit_code=exit_code))
            is_complete = "wandb sync" not in output.getvalue()
        except TimeoutError as error:
            if isinstance(error, CallTimeout):  # W&B does not always keep its own timeout
                stop_service(self._wandb)
        finally:
            if not is_complete:
                (folder / INCOMPLETE).touch()
        return is_complete

    def _init(self, mode: Literal["online", "offline", "disabled"]) -> Any:
        run = self._start
        tags = dict.fromkeys(tag[:MAX_TAG_LENGTH] for tag in (*run.tags, *self.tags))
        with contextlib.redirect_stderr(io.StringIO()):  # attnx prints what matters in one line
            return self._wandb.init(
                entity=self.entity,
                project=self.project,
                dir=str(run.folder),
                id=self._id,
                name=run.name,
                group=self.group or run.group,
                job_type="train",
                tags=[*tags],
                config=dict(run.config),
                mode=mode,
                resume="allow",
                reinit="create_new",  # leaves a run alone that a notebook or an earlier job has open
                settings=self._wandb.Settings(
                    init_timeout=self.timeout,
                    finish_timeout=self.timeout,
                    finish_timeout_raises=True,
                    console="off",  # a progress bar would flood it
                    disable_git=True,  # a remote's address can hold a password; run.json has the commit
                    save_code=False,
                    x_save_requirements=False,
                    x_transaction_log_flush_interval=1.0,
                    symlink=False,
                    silent=True,
                ),
            )


def as_media(path: Path) -> Any:
    """A file as W&B's media type, by its ending."""
    import wandb

    if path.suffix == ".tsv":
        header, rows = read_table(path)
        columns: list[Sequence[str] | list[float]] = []
        for name in header:
            cells = [row[name] for row in rows[:MAX_TABLE_ROWS]]
            is_numeric = all(NUMBER.fullmatch(cell) for cell in cells)  # W&B then sorts the column by value
            columns.append([*map(float, cells)] if is_numeric else cells)
        return wandb.Table(columns=[*header], data=[*map(list, zip(*columns, strict=True))])
    if path.suffix == ".html":
        return wandb.Html(str(path), inject=False)
    return wandb.Image(str(path), caption=path.stem)


def model_artifact(folder: Path, name: str) -> Any:
    """The best checkpoint of a run with the files that open it, by their paths in the run folder."""
    import wandb

    weights = [folder / CHECKPOINTS / checkpoint for checkpoint in (BEST, LAST)]
    files = [next(path for path in weights if path.is_file()), folder / CONFIG_YAML, folder / RUN_JSON]
    artifact = wandb.Artifact(name, type="model")
    for path in (*files, *sorted((folder / VOCABULARY).iterdir())):
        artifact.add_file(str(path), name=path.relative_to(folder).as_posix(), policy="immutable")
    return artifact


def recordings(folder: Path) -> list[Path]:
    """The folders of a run's recordings, oldest first."""
    return sorted(folder.glob("wandb/*run-*-*"), key=lambda path: path.name.removeprefix("offline-"))


def unsynced(folder: Path) -> list[Path]:
    """The recordings that are not uploaded; ``wandb sync`` marks those that it has uploaded."""
    return [
        path
        for path in recordings(folder)
        if (path.name.startswith("offline") or (path / INCOMPLETE).exists()) and not [*path.glob("*.synced")]
    ]


def sync_command(paths: Sequence[Path]) -> str:
    """The command that uploads recordings; "" if there are none."""
    include_online = ["--include-online"] if any(path.name.startswith("run-") for path in paths) else []
    return shlex.join(["wandb", "sync", *include_online, *map(str, paths)]) if paths else ""

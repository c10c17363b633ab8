"""The logger ``wandb``."""

from __future__ import annotations

import contextlib
import io
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from attnx.loggers.contract import RunStart
from attnx.loggers.timeout import CallTimeout, within
from attnx.loggers.wandb_files import INCOMPLETE, command, medium, model, recordings, unsent
from attnx.loggers.wandb_server import GRACE, silence, stop, why_unreachable
from attnx.registry import Rate, register
from attnx.runs.status import RunStatus

# What W&B takes a run's end for; 255 is its own code for one that was stopped by hand.
CODES: dict[RunStatus, int] = {RunStatus.FINISHED: 0, RunStatus.FAILED: 1, RunStatus.INTERRUPTED: 255}
LONGEST = 64  # characters of a tag


@register("logger", "wandb")
class Wandb:
    """Weights & Biases: a run a job, grouped by sweep and tagged with its parts; curves, pictures, tables, the page.

    Formula: ``a job -> a run of project, in the group of its sweep, with a tag a part``
    Source: Weights & Biases, https://docs.wandb.ai

    Everything is recorded in the run folder first, ``wandb/``. Without a key, or where the server does not answer
    within ``patience`` seconds, nothing is uploaded, and the command that does it later is printed at the end and kept
    in the folder's README. A server that is lost while training costs no time then, and at the end at most twice
    ``patience`` and a few seconds. ``artifact`` uploads the best weights with what ``attnx.open_run`` needs beside
    them.
    """

    def __init__(
        self,
        project: str = "attnx",
        entity: str | None = None,
        group: str | None = None,
        tags: list[str] | None = None,
        offline: bool = False,
        artifact: bool = False,
        patience: Rate = 10.0,
    ) -> None:
        self.project, self.entity, self.group, self.tags = project, entity, group, tags or []
        self.offline, self.artifact, self.patience = offline, artifact, patience

    def start(self, run: RunStart) -> Mapping[str, Any]:
        """Begin a run, or go on with it under its old id."""
        # Reports of W&B's own errors go to the same server and are waited for, long, when the process ends.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ.setdefault("WANDB_HTTP_TIMEOUT", str(math.ceil(self.patience)))  # read once, at the import
        import wandb

        self._wandb, self._told = wandb, run
        self._id = str(run.kept.get("id") or secrets.token_hex(4))
        mode = os.environ.get("WANDB_MODE", "")
        if mode == "disabled":
            self._run = self._begin("disabled")
            run.tell("wandb: WANDB_MODE=disabled; nothing is recorded")
        elif reason := self._why_offline(mode) or self._try_online():
            self._run = self._begin("offline")
            run.tell(f"wandb: {reason}; recording offline")
        else:
            run.tell(f"wandb: {self._run.url}")
        return {"id": self._id, "project": self.project}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log a row; what a killed run had logged before it was gone on from is there already."""
        if step >= self._run.step:
            self._run.log(dict(values), step=step)

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Log pictures, tables and pages."""

        def act() -> None:
            media = {name: medium(path) for name, path in files.items()}
            self._run.log(media, step=max(step, self._run.step))

        if any(path.suffix == ".tsv" for path in files.values()):
            self._reaching(act)  # a table asks the server for a place
        elif files:
            act()

    def finish(self, end: RunStatus, summary: Mapping[str, float]) -> str:
        """End the run as what it ended as; return the command that uploads what is not uploaded."""
        if self.artifact and end == "finished":
            self._reaching(lambda: self._run.log_artifact(model(self._told.folder, f"model-{self._id}")))
        self._run.summary.update(dict(summary))
        if not self._close(CODES[end]):
            self._told.tell(f"wandb: the server did not take everything within {self.patience:g} s; all is kept here")
        return command(unsent(self._told.folder))

    def _why_offline(self, mode: str) -> str:
        """The reason not even to try, if there is one."""
        if self.offline:
            return "logger.wandb.offline=true"
        if mode in ("offline", "dryrun"):
            return f"WANDB_MODE={mode}"
        if unsent(self._told.folder):
            return "an earlier part of this run is not uploaded yet"  # parts can only be uploaded in order
        return why_unreachable(self._wandb.setup().settings, self.patience)

    def _try_online(self) -> str:
        """Begin with the server, or say why that failed and leave nothing of it."""
        before = {*recordings(self._told.folder)}
        try:
            self._run = self._begin("online")
        except Exception as error:
            stop(self._wandb)  # else its process holds the id for the run that could not begin
            for empty in {*recordings(self._told.folder)} - before:
                shutil.rmtree(empty)
            return _line(error)
        return ""

    def _reaching(self, act: Callable[[], Any]) -> None:
        """Do what asks the server; if that cannot be done, go on without it, in a second recording."""
        if not self._run.offline and not self._run.disabled:
            problem = silence(self._run.settings.base_url, self.patience)
            if not problem:
                try:
                    act()
                except Exception as error:
                    problem = _line(error)
                else:
                    return
            self._close(0)
            stop(self._wandb)
            self._run = self._begin("offline")
            self._told.tell(f"wandb: {problem}; recording offline from here")
        act()

    def _close(self, code: int) -> bool:
        """End a recording; whether the server, if it goes there, has taken it whole."""
        place, whole = Path(self._run.dir).parent, True
        with _quiet() as said:
            try:
                within(self.patience + GRACE, lambda: self._run.finish(exit_code=code))
            except CallTimeout:  # it has a timeout of its own, and does not always keep it
                whole = False
                stop(self._wandb)
            except TimeoutError:
                whole = False
        whole = whole and "wandb sync" not in said.getvalue()
        if not whole:
            (place / INCOMPLETE).touch()
        return whole

    def _begin(self, mode: Literal["online", "offline", "disabled"]) -> Any:
        settings = self._wandb.Settings(
            init_timeout=self.patience,
            finish_timeout=self.patience,
            finish_timeout_raises=True,
            console="off",  # a progress bar would flood it
            disable_git=True,  # an address can hold a password, and run.json has the commit
            save_code=False,
            x_save_requirements=False,
            x_transaction_log_flush_interval=1.0,
            symlink=False,
            silent=True,
        )
        run = self._told
        tags = dict.fromkeys(tag[:LONGEST] for tag in (*run.tags, *self.tags))
        with _quiet():
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
                reinit="create_new",  # the run that a notebook or an earlier job left open is not ours
                settings=settings,
            )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Keep W&B's own lines for ourselves: a run says in one what there is to say."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        yield said

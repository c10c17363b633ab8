"""The protocol of loggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from attnx.runs.info import RunStatus


class RunStart(NamedTuple):
    """What a logger gets when a run starts or resumes.

    Attributes:
        folder: the run folder; a logger may keep a folder of its own name in it.
        name: what distinguishes the run from others, in one line.
        group: the sweep that the run belongs to, else the name given by the user, else None.
        tags: the parts chosen, as on the command line: ``scorer=dot``.
        config: the configuration and what follows from it, plain containers.
        state: what this logger returned when the run started; empty then.
        report: prints a line for the user.
    """

    folder: Path
    name: str
    group: str | None
    tags: Sequence[str]
    config: Mapping[str, Any]
    state: Mapping[str, Any]
    report: Callable[[str], None]


class Logger(Protocol):
    """Receives what a run measures and draws; an error in it does not stop the run.

    Names have a slash after their stage: ``train/loss``, ``valid/per``, ``test/predictions``.
    """

    def start(self, run: RunStart) -> Mapping[str, Any]:
        """Start or resume; return the state that a resumed run needs, plain values and no secret."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log values of an optimizer step; steps never decrease, but may repeat.

        A resumed run may begin at an earlier step than that at which it was killed.
        """

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Log files by name; they may be deleted afterwards.

        A picture is ``.png``, a table ``.tsv`` with a header, a page ``.html``.
        """

    def finish(self, status: RunStatus, summary: Mapping[str, float]) -> str:
        """Finish, with the best validation and the test; return a command that the user has to run, "" for none."""

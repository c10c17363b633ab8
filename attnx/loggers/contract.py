"""What a logger is, and what it is told when a run begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from attnx.runs.status import RunStatus


class RunStart(NamedTuple):
    """What a logger is told of a run that begins or goes on.

    Attributes:
        folder: the run's; a logger may keep a folder of its own name in it.
        name: what makes it differ from others, in a line.
        group: the sweep it is a job of, else the name that was given, else None.
        tags: the parts chosen, as on a command line: ``scorer=dot``.
        config: the whole configuration and what followed from it, plain containers.
        kept: what this logger returned when the run began; empty then.
        tell: says a line to the user.
    """

    folder: Path
    name: str
    group: str | None
    tags: Sequence[str]
    config: Mapping[str, Any]
    kept: Mapping[str, Any]
    tell: Callable[[str], None]


class Logger(Protocol):
    """Takes what a run measures and draws; nothing that goes wrong in it stops the run.

    Names have a slash behind their stage: ``train/loss``, ``valid/per``, ``test/predictions``.
    """

    def start(self, run: RunStart) -> Mapping[str, Any]:
        """Begin, or go on with what was kept; return what a resumed run must know, plain values and no secret."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take what was measured at an optimizer step; steps never fall, but may repeat."""

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Take files by name, of which the ending says what they are; afterwards they may be gone.

        A picture is ``.png``, a table ``.tsv`` with a header, a page ``.html``.
        """

    def finish(self, end: RunStatus, summary: Mapping[str, float]) -> str:
        """End, with the best and the test's values; return a command that is left to the user, or nothing."""

"""The protocol of loggers, and a run's collection of them: an error in one never stops the run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from attnx import registry
from attnx.errors import one_line
from attnx.runs.info import RunStatus


class RunStart(NamedTuple):
    """What a logger gets when a run starts or resumes."""

    folder: Path  #: the run folder; a logger may keep a folder of its own name in it
    name: str  #: what distinguishes the run from others, in one line
    group: str | None  #: the sweep that the run belongs to, else the name given by the user, else None
    tags: Sequence[str]  #: the parts chosen, as on the command line: ``scorer=dot``
    config: Mapping[str, Any]  #: the configuration and what follows from it, plain containers
    state: Mapping[str, Any]  #: what this logger returned when the run started; empty then
    report: Callable[[str], None]  #: prints a line for the user


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


class Loggers:
    """The loggers of a run. A logger that raises is removed, with one line for the user."""

    def __init__(self, specs: Mapping[str, Mapping[str, Any]]) -> None:
        self._loggers: dict[str, Logger] = {
            name: registry.build("logger", (name, options)) for name, options in specs.items()
        }
        self._started: set[str] = set()
        self._removed: dict[str, Logger] = {}
        self.report: Callable[[str], None] = print

    def __bool__(self) -> bool:
        return bool(self._loggers)

    def start(self, run: RunStart) -> dict[str, Any]:
        """Start all; return the state of each, for a resumed run."""
        self.report = run.report

        def start_one(name: str, logger: Logger) -> dict[str, Any]:
            state = logger.start(run._replace(state=run.state.get(name, {})))
            state = dict(json.loads(json.dumps(dict(state))))  # what JSON cannot hold is an error of the logger
            self._started.add(name)
            return state

        return {**run.state, **self._call_all(start_one)}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log values by attnx's names: ``valid_per`` becomes ``valid/per``."""
        by_section = add_sections(values)
        self._call_all(lambda name, logger: logger.log(step, by_section))

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Show those files that exist."""
        existing = {key: path for key, path in files.items() if path.is_file()}
        self._call_all(lambda name, logger: logger.show(step, existing))

    def finish(self, status: RunStatus, summary: Mapping[str, float]) -> dict[str, str]:
        """Finish all; return the commands that the user has to run, by logger."""
        by_section, commands = add_sections(summary), dict[str, str]()
        interrupted = {name: self._loggers.pop(name) for name in [*self._loggers] if name not in self._started}
        for name, logger in (self._removed | interrupted).items():
            with suppress(Exception):  # so that it releases what it holds, and says how to upload it
                commands[name] = logger.finish(status, by_section if name in self._removed else {})
        commands |= self._call_all(lambda name, logger: logger.finish(status, by_section))
        return {name: command for name, command in commands.items() if command}

    def _call_all(self, call: Callable[[str, Logger], Any]) -> dict[str, Any]:
        """Make a call to each logger, and remove those that raise; return the results by name."""
        results = {}
        for name, logger in [*self._loggers.items()]:
            try:
                results[name] = call(name, logger)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # it may exit
                self.report(f"{name}: {one_line(error)}; the run goes on without this logger")
                self._removed[name] = self._loggers.pop(name)
        return results


def add_sections(values: Mapping[str, float]) -> dict[str, float]:
    """Values with a slash after their stage, by which dashboards group them.

    >>> add_sections({"valid_per": 7.0, "steps": 5.0})
    {'valid/per': 7.0, 'steps': 5.0}
    """
    return {re.sub(r"^(train|valid|test)_", r"\1/", name): value for name, value in values.items()}

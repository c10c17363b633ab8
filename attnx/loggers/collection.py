"""A collection of loggers; an error in one never stops a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.errors import error_text
from attnx.loggers.contract import Logger, RunStart
from attnx.runs.info import RunStatus


class Loggers:
    """The loggers of a run. A logger that raises is removed, with one line for the user.

    Raises:
        UserError: a logger needs a package that is not installed.
    """

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


def one_line(error: BaseException) -> str:
    """The message of an error in one line, or its type."""
    return " ".join(error_text(error).split()) or type(error).__name__


def add_sections(values: Mapping[str, float]) -> dict[str, float]:
    """Values with a slash after their stage, by which dashboards group them.

    >>> add_sections({"valid_per": 7.0, "steps": 5.0})
    {'valid/per': 7.0, 'steps': 5.0}
    """
    return {re.sub(r"^(train|valid|test)_", r"\1/", name): value for name, value in values.items()}

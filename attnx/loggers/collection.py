"""Several loggers as one, of which none can stop a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.loggers.contract import Logger, RunStart
from attnx.runs.status import RunStatus

STAGES = ("train", "valid", "test")


class Loggers:
    """What was chosen as ``logger=``; false if that is nothing but files.

    A logger that raises is told of in one line, and left out from then on.

    Args:
        chosen: names and knobs.

    Raises:
        UserError: one needs a package that is not installed.
    """

    def __init__(self, chosen: Mapping[str, Mapping[str, Any]]) -> None:
        built = {name: registry.build("logger", (name, knobs)) for name, knobs in chosen.items()}
        self._each: dict[str, Logger] = {name: logger for name, logger in built.items() if logger is not None}
        self._left_out: list[Logger] = []
        self._tell: Callable[[str], None] = print

    def __bool__(self) -> bool:
        return bool(self._each)

    def start(self, run: RunStart) -> dict[str, Any]:
        """Begin; return what each wants to be told when the run goes on."""
        self._tell = run.tell
        kept = dict(run.kept)
        for name, logger in [*self._each.items()]:
            found = self._try(name, logger.start, run._replace(kept=kept.get(name, {})))
            kept |= {} if found is None else {name: dict(found)}
        return kept

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log values by attnx's names: ``valid_per`` becomes ``valid/per``."""
        named = sectioned(values)
        for name, logger in [*self._each.items()]:
            self._try(name, logger.log, step, named)

    def show(self, step: int, files: Mapping[str, Path]) -> None:
        """Show those files that are there."""
        there = {key: path for key, path in files.items() if path.is_file()}
        for name, logger in [*self._each.items()]:
            self._try(name, logger.show, step, there)

    def finish(self, end: RunStatus, summary: Mapping[str, float]) -> dict[str, str]:
        """End all; return the commands that are left to the user, by logger."""
        for logger in self._left_out:
            with suppress(Exception):  # so that it lets go of what it holds
                logger.finish(end, {})
        named = sectioned(summary)
        left = {name: self._try(name, logger.finish, end, named) for name, logger in [*self._each.items()]}
        return {name: command for name, command in left.items() if command}

    def _try(self, name: str, act: Callable[..., Any], *told: Any) -> Any:
        try:
            return act(*told)
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            self._tell(f"{name}: {reason}; the run goes on without this logger")
            self._left_out.append(self._each.pop(name))
            return None


def sectioned(values: Mapping[str, float]) -> dict[str, float]:
    """Values with a slash behind their stage, by which dashboards group them.

    >>> sectioned({"valid_per": 7.0, "steps": 5.0})
    {'valid/per': 7.0, 'steps': 5.0}
    """
    return {_sectioned(name): value for name, value in values.items()}


def _sectioned(name: str) -> str:
    stage, underscore, rest = name.partition("_")
    return f"{stage}/{rest}" if underscore and stage in STAGES else name

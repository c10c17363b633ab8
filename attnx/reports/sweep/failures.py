"""Runs that did not finish, grouped by what went wrong with which setting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from attnx.files.parse_number import count_phrase
from attnx.reports.markdown import cell_text
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.status import RunStatus

SEED_OVERRIDE = re.compile(r"(^| )seed=\S+")


class Failure(NamedTuple):
    """Runs that differ by their seed alone, and ended with the same status and the same error."""

    name: str
    runs: list[RunRecord]

    @property
    def status(self) -> str:
        """How the runs ended, and with how many seeds, if there are several."""
        status = str(self.runs[0].status)
        if len(self.runs) == 1:
            return status
        return f"{status} with {count_phrase(len(self.runs), 'seed')} ({', '.join(str(run.seed) for run in self.runs)})"

    @property
    def error(self) -> str:
        """One line; "" if there was none."""
        return self.runs[0].error

    def describe(self) -> str:
        """Status, error and the first log, on one line."""
        reason = f": {cell_text(self.error)}" if self.error else ""
        logs = [f"; see `{run.log}`" for run in self.runs if run.log]
        return f"{cell_text(self.name)}: {self.status}{reason}{''.join(logs[:1])}"


def group_failures(records: Sequence[RunRecord]) -> list[Failure]:
    """Group the unfinished runs; those whose choices are unknown remain alone."""
    groups: dict[tuple[str, str, str], list[RunRecord]] = {}
    for run in records:
        if run.status != RunStatus.FINISHED:
            setting = repr(sorted(run.choices.items())) if run.choices else str(run.path)
            groups.setdefault((setting, run.status, run.error), []).append(run)
    return [Failure(_name(runs), runs) for runs in groups.values()]


def _name(runs: Sequence[RunRecord]) -> str:
    """The label of a run, or without the seed that of several."""
    label = runs[0].label
    return (SEED_OVERRIDE.sub("", label).strip() or label) if len(runs) > 1 else label

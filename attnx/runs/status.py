"""The status of a run or a job of a sweep."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The status of a run.

    ``waiting`` before it is started; ``interrupted`` if it can be resumed; ``pruned`` if a search ended it because
    other jobs were clearly better; ``stopped`` if its files say ``running``, but they have not changed for long;
    ``without results`` if it finished but results.json is missing; ``unreadable`` if a file of it cannot be read.
    """

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    PRUNED = "pruned"
    STOPPED = "stopped"
    WITHOUT_RESULTS = "without results"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"


def parse_status(value: object) -> RunStatus:
    """The status that a file records."""
    return next((status for status in RunStatus if status == value), RunStatus.UNKNOWN)


# The statuses in sweep.json, and those in `attnx runs`.
JOB_STATUSES = tuple(RunStatus)[:6]
LISTED_STATUSES = tuple(RunStatus)[1:7]

"""How a run or a job of a sweep stands."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """How a run stands.

    ``waiting`` before it is started; ``interrupted`` if it can be resumed; ``pruned`` if a search ended it because
    others were clearly better; ``stopped`` if its files say ``running``, but nobody has written to them for long;
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


# What sweep.json says of a job, and what `attnx runs` says of a run.
JOB_STATUSES = tuple(RunStatus)[:6]
LISTED_STATUSES = tuple(RunStatus)[1:7]

"""The status of a run or a job of a sweep."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The status of a run; any value that is none of these is ``unknown``.

    ``waiting`` before it is started; ``interrupted`` if it can be resumed; ``pruned`` if a search ended it because
    other jobs were clearly better; ``stopped`` if its files say ``running``, but its process was killed, or they have
    not changed for long; ``without results`` if it finished but results.json is missing; ``unreadable`` if a file of it
    cannot be read.
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

    @classmethod
    def _missing_(cls, value: object) -> RunStatus:
        return cls.UNKNOWN


# Statuses of started runs.
STARTED = (RunStatus.RUNNING, RunStatus.FINISHED, RunStatus.FAILED, RunStatus.INTERRUPTED, RunStatus.PRUNED)
# Statuses that a resumed sweep skips.
DONE_STATUSES = (RunStatus.FINISHED, RunStatus.PRUNED)
# Statuses in sweep.json.
JOB_STATUSES = (RunStatus.WAITING, *STARTED)
# Statuses that `attnx runs` filters by.
LISTED_STATUSES = (*STARTED, RunStatus.STOPPED, RunStatus.UNKNOWN)

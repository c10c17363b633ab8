"""How a run stands, by its folder alone: also of one that was killed and could not say so."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from attnx.runs.layout import EXPLANATION, METRICS, PROGRESS
from attnx.runs.progress import standing
from attnx.runs.run import Run
from attnx.runs.sweep import Status, at_work, is_sweep, read_sweep

# One that says it is running, but wrote nothing for so many seconds, was cut off. A job of a sweep writes its step
# twice a second, except while it is tested; a single run writes at its validations.
QUIET_JOB, QUIET = 600.0, 3600.0
DAY = 86400.0
STOPPED = "stopped"
STATUSES = (*(status for status in get_args(Status) if status != "waiting"), STOPPED)


def status_of(run: Run, written: float) -> str:
    """One of STATUSES, or what else run.json says.

    Args:
        run: the run.
        written: when a file of it was last written, in seconds since 1970.
    """
    said, silent = str(run.info.get("status")), time.time() - written
    if said == "finished" and silent < QUIET_JOB and not (run.path / EXPLANATION).is_file():
        return "running"  # it is tested, and still being drawn
    if said != "running":
        return said
    in_sweep = (run.path / PROGRESS).is_file()
    if in_sweep and standing(run.path).error:
        return "failed"
    going = silent < (QUIET_JOB if in_sweep else _patience(run, written)) or _at_work(run.path.resolve())
    return said if going else STOPPED


def begun(run: Run) -> datetime | None:
    """When a run was made; None if it does not say."""
    said: Any = run.info.get("created")
    try:
        return datetime.fromisoformat(said).astimezone()
    except (TypeError, ValueError):
        return None


def _patience(run: Run, written: float) -> float:
    """The silence after which a single run was cut off: that of three validations; before the first of them, a day."""
    file, since = run.path / METRICS, begun(run)
    rows = len(file.read_bytes().splitlines()) - 1 if file.is_file() else 0
    return max(QUIET, 3 * (written - since.timestamp()) / rows) if rows > 0 and since else DAY


def _at_work(path: Path) -> bool:
    """Whether the sweep above is running, and says that this job is."""
    sweep = path.parent
    if not (path.name.isdecimal() and is_sweep(sweep) and at_work(sweep)):
        return False
    return any(job.status == "running" for job in read_sweep(sweep).jobs if job.number == int(path.name))

"""Reads the time of a training step that one job of a sweep measured for all. Without torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping
from attnx.registry.option_types import seconds
from attnx.runs.layout import STEP_TIME


class StepTime(NamedTuple):
    """The content of ``step_time.json``: the seconds of an optimizer step, and the job that measured them.

    ``steps`` is the number of steps that fit into ``max_time``, the training time as HH:MM:SS.
    """

    seconds_per_step: float
    job: int
    max_time: str
    steps: int


def read_step_time(sweep: Path) -> StepTime | None:
    """Read the step time; None before it is measured."""
    content = read_mapping(sweep / STEP_TIME)
    if not content:
        return None
    try:
        step_time = StepTime(**content)
        has_types = type(step_time.job) is int and type(step_time.steps) is int
        if has_types and 0 < step_time.seconds_per_step < math.inf and seconds(step_time.max_time) is not None:
            return step_time
    except TypeError:
        pass
    raise UserError(f"{sweep / STEP_TIME}: damaged; restore it, or start over with fresh=true")

"""Reads how long a training step takes in a sweep, which one of its jobs measured for all of them. Without torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping
from attnx.registry.param_types import seconds
from attnx.runs.layout import STEP_TIME


class StepTime(NamedTuple):
    """What was measured, in ``step_time.json``.

    Attributes:
        seconds_per_step: of an optimizer step of the job that measured.
        job: its number.
        max_time: how long it is to train, HH:MM:SS.
        steps: how many steps that makes.
    """

    seconds_per_step: float
    job: int
    max_time: str
    steps: int


def read_step_time(sweep: Path) -> StepTime | None:
    """Read it; None before it was measured.

    Raises:
        UserError: the file holds something else.
    """
    held = read_mapping(sweep / STEP_TIME)
    if not held:
        return None
    try:
        found = StepTime(**held)
        right = math.isfinite(found.seconds_per_step) and found.seconds_per_step > 0
        right = right and type(found.job) is int and type(found.steps) is int and seconds(found.max_time) is not None
    except TypeError:
        right = False
    if not right:
        raise UserError(f"{sweep / STEP_TIME}: not what a sweep measured; put it back, or start over with fresh=true")
    return found

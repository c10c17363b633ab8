"""Reads the time of a training step that one job of a sweep measured for all. Without torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping
from attnx.registry.param_types import seconds
from attnx.runs.layout import STEP_TIME


class StepTime(NamedTuple):
    """The content of ``step_time.json``.

    Attributes:
        seconds_per_step: of an optimizer step.
        job: the index of the job that measured it.
        max_time: the training time, HH:MM:SS.
        steps: the steps that fit into it.
    """

    seconds_per_step: float
    job: int
    max_time: str
    steps: int


def read_step_time(sweep: Path) -> StepTime | None:
    """Read the step time; None before it is measured.

    Raises:
        UserError: the file holds something else.
    """
    content = read_mapping(sweep / STEP_TIME)
    if not content:
        return None
    try:
        step_time = StepTime(**content)
        is_valid = math.isfinite(step_time.seconds_per_step) and step_time.seconds_per_step > 0
        is_valid = is_valid and type(step_time.job) is int and type(step_time.steps) is int
        is_valid = is_valid and seconds(step_time.max_time) is not None
    except TypeError:
        is_valid = False
    if not is_valid:
        raise UserError(f"{sweep / STEP_TIME}: damaged; restore it, or start over with fresh=true")
    return step_time

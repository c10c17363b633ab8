"""The main command on a CPU, for the same number of steps: what its error rates on a GPU are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from gpu_sections import main_run
from gpu_sections.cases import Case, Setting
from gpu_sections.row_names import MAIN

PLANNED_SECONDS = 500.0
"""On two cores."""


def cases(setting: Setting) -> Iterator[Case]:
    """The run."""
    setting = setting._replace(device=torch.device("cpu"))
    seconds = main_run.PLANNED_SECONDS if setting.is_check else PLANNED_SECONDS
    yield Case(MAIN, partial(main_run.run_main_command, setting), seconds)

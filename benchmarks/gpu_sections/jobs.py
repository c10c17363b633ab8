"""A sweep of 16 small jobs: one after another and four at a time on the device, and all at once on the CPU's cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

from peers.environments import ROOT, last_word
from peers.training import ATTNX

from attnx.files.process import available_cores
from gpu_sections.cases import Case, Figures, NotRunError, Setting
from gpu_sections.row_names import ALL_AT_A_TIME, FOUR_AT_A_TIME, ONE_AT_A_TIME, SECONDS
from gpu_sections.steps import corpus, sizes

JOBS, CHECK_JOBS, STEPS, CHECK_STEPS = 16, 2, 100, 2
WAYS = ((FOUR_AT_A_TIME, 4, False, 30.0), (ONE_AT_A_TIME, 1, False, 70.0), (ALL_AT_A_TIME, JOBS, True, 35.0))
"""A row, its jobs at a time, whether they are on the CPU, and its planned seconds."""


def cases(setting: Setting) -> Iterator[Case]:
    """The three ways; a check has one."""
    for row, at_a_time, is_on_cpu, seconds in WAYS[:1] if setting.is_check else WAYS:
        yield Case(row, partial(_run, setting, at_a_time, is_on_cpu), seconds)


def _run(setting: Setting, at_a_time: int, is_on_cpu: bool) -> Figures:
    """The seconds of the command, with its start, tests, pictures and report."""
    jobs, steps = (CHECK_JOBS, CHECK_STEPS) if setting.is_check else (JOBS, STEPS)
    at_a_time = min(at_a_time, jobs)
    if at_a_time > available_cores():
        raise NotRunError(f"there are {available_cores()} CPU cores for {at_a_time} jobs at a time")
    values = {"pairs": corpus(setting), "updates": steps, **sizes(setting)}
    job = [override.format(**values) for override in ATTNX if not override.startswith("folder=")]
    accelerator = "trainer.accelerator=cpu" if is_on_cpu else setting.accelerator
    name = f"jobs_{at_a_time}{'_cpu' * is_on_cpu}"
    words = ["-m", f"seed=range(1,{jobs + 1})", f"name={name}", "-j", str(at_a_time), *job, accelerator]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "attnx", *words],
        cwd=setting.folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(last_word(done.stderr) or f"exit code {done.returncode}")
    return {SECONDS: time.perf_counter() - start, "jobs": jobs, "jobs at a time": at_a_time, "steps": steps}

"""SLURM, as a stand-in on this machine plays it, takes a job's machine away and sends the job again, and it goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnx.read_sweep import read_sweep
from attnx.sweeps.elsewhere import held

pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
COMMANDS = ("sbatch", "srun", "scontrol", "scancel", "sacct")


@pytest.fixture
def slurm(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with SLURM's commands; the folder says what they were asked."""
    place = here / "slurm"
    place.mkdir()
    for name in COMMANDS:
        file = place / name
        script = Path(__file__).with_name("slurm.py")
        file.write_text(f'#!/bin/sh\nexec {sys.executable} {script} {name} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(place))
    return place


def test_jobs_whose_machine_is_taken_away_are_sent_again_and_end_as_if_it_had_not_been(
    slurm: Path,
    alone: Callable[..., subprocess.Popen[str]],
    run: Callable[..., Any],
    moody: Path,
    reached: Callable[..., list[int]],
    calm: Callable[[], None],
    same_weights: Callable[..., bool],
) -> None:
    """One is warned, as when its time is up; the other is told to end, as where somebody comes before it."""
    Path("wait").touch()
    with alone("-m", "hydra/launcher=slurm", "scorer=moody", "seed=1,2", "name=cut") as process:
        reached(2)
        calm()
        for job, told in (("4711_0", "SIGUSR2"), ("4711_1", "SIGTERM")):
            subprocess.run(["scancel", "--signal", told, job], check=True)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert sorted((slurm / "asked").read_text(encoding="utf-8").splitlines()) == ["requeue 4711", "requeue 4712"]
    found = read_sweep("multirun/cut")
    assert (found.status, [job.status for job in found.jobs]) == ("finished", ["finished", "finished"])
    for job in found.jobs:  # each was stopped once, and went on
        said = found.log(job).read_text(encoding="utf-8")
        assert (said.count("attnx: interrupted\n"), said.count("testing on")) == (1, 1)
    assert out.splitlines()[-1] == "multirun/cut/report.html"
    for job in found.jobs:
        run("scorer=moody", f"seed={job.number + 1}", folder=f"whole-{job.number}")
        assert same_weights([f"multirun/cut/{job.number}", f"whole-{job.number}"])


def test_a_job_that_a_cluster_still_runs_is_waited_for(here: Path) -> None:
    """As where a command was stopped, its jobs go on, and it is asked again."""
    folder, order = Path("multirun/one/0"), []

    def later() -> None:
        with held(folder):
            order.append("later")

    with held(folder):
        thread = threading.Thread(target=later)
        thread.start()
        thread.join(0.2)
        order.append("earlier")
    thread.join()
    assert order == ["earlier", "later"]

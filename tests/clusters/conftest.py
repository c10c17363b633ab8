"""Fixtures of clusters that are brought up on this machine, and those of small runs and sweeps."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.runs.conftest import (
    fork_command,
    forked_ranks,
    no_pictures,
    no_pictures_folder,
    run,
    same_weights,
    sized,
    small,
    weights,
    words,
    work_folder,
    write_words,
)
from tests.runs.sweeps.conftest import clear_moods, moody, start_command, wait_for_jobs

__all__ = [
    "clear_moods",
    "fork_command",
    "forked_ranks",
    "moody",
    "no_pictures",
    "no_pictures_folder",
    "run",
    "same_weights",
    "sized",
    "small",
    "start_command",
    "wait_for_jobs",
    "weights",
    "words",
    "work_folder",
    "write_words",
]
DAEMONS = ("munged", "slurmctld", "slurmd")


@pytest.fixture(scope="session")
def slurm_daemons(tmp_path_factory):
    """A SLURM of two cores that runs as long as the tests do; skips where it cannot."""
    if os.geteuid():
        pytest.skip("starting SLURM needs root")
    if missing := [name for name in DAEMONS if not shutil.which(name)]:
        pytest.skip(f"{', '.join(missing)}: not installed; apt-get install slurm-wlm munge")
    folder = tmp_path_factory.mktemp("slurm")
    script = [str(Path(__file__).with_name("slurm.sh")), str(folder)]
    with subprocess.Popen(
        script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if (answer := process.stdout.readline()) != "ready\n":
            pytest.skip(f"SLURM does not start on this machine: {answer.strip()}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
            yield
        process.stdin.close()


@pytest.fixture
def slurm(slurm_daemons):
    """That SLURM, of which a test that fails leaves neither jobs nor a closed partition to the next one."""
    yield
    subprocess.run(["scontrol", "update", "PartitionName=batch", "State=UP"], check=True)
    subprocess.run(["scancel", "--user=root"], check=True)
    while subprocess.run(["squeue", "--noheader"], capture_output=True, check=True).stdout:
        time.sleep(0.1)

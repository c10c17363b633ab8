"""Each job of a sweep has GPUs of its own; their ids are names, and no GPU is needed to divide them."""

import os
from pathlib import Path

import pytest

from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.sweeps.gpus import choose_gpus, count_needed_gpus, count_parallel_jobs, visible_gpus
from tests.runs.conftest import write_plug_in

LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d)
  MIG 3g.20gb     Device  0: (UUID: MIG-c8a2c2a1-11)
  MIG 3g.20gb     Device  1: (UUID: MIG-GPU-5d5ba0d6-d33d/2/0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-7a64)
"""
SPY = """\
import os

from attnx.attention.scorers.dot import Dot
from attnx.registry import register


@register("scorer", "spy")
class Spy(Dot):
    def __init__(self):
        super().__init__()
        with open("seen.txt", "a") as file:
            print(os.environ["CUDA_VISIBLE_DEVICES"], file=file)
"""


@pytest.mark.parametrize(
    ("variable", "gpus"),
    [
        ("0,1", ["0", "1"]),
        ("GPU-a, MIG-b", ["GPU-a", "MIG-b"]),
        ("2,-1,3", ["2"]),  # CUDA stops at what is no GPU
        ("", []),
        ("NoDevFiles", ["NoDevFiles"]),
    ],
)
def test_the_gpus_of_the_user_are_divided(variable, gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_gpus() == gpus


@pytest.mark.parametrize(
    ("program", "gpus"),
    [
        (f"cat << 'END'\n{LISTING}END", ["MIG-c8a2c2a1-11", "MIG-GPU-5d5ba0d6-d33d/2/0", "GPU-7a64"]),
        ("echo 'No devices were found'", []),
        ("echo 'GPU 0: A (UUID: GPU-a)'; exit 9", []),
    ],
)
def test_gpus_are_listed_by_nvidia_smi(program, gpus, monkeypatch, work_folder):
    """A GPU that is divided into MIG devices is those."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    path = work_folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{work_folder}{os.pathsep}{os.environ['PATH']}")
    assert visible_gpus() == gpus
    monkeypatch.setenv("PATH", str(work_folder / "nowhere"))
    assert visible_gpus() == []


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        ([], 1),
        (["trainer.accelerator=cpu"], 0),
        (["trainer=ddp", "trainer.devices=2"], 2),
        (["trainer=ddp", "trainer.devices=null"], 3),
        (["placement.encoder=cpu", "placement.decoder=cuda:1"], 2),
        (["trainer=ddp", "trainer.devices=5"], 3),
    ],
)
def test_a_job_needs_the_gpus_that_it_trains_on(overrides, needed):
    assert count_needed_gpus(compose(overrides), available=3) == needed
    assert count_needed_gpus(compose(overrides), available=0) == 0


def test_no_two_jobs_have_one_gpu_before_all_are_in_use():
    gpus = ["a", "b", "c", "d"]
    assert choose_gpus(gpus, [], 2) == ["a", "b"]
    assert choose_gpus(gpus, [["a", "b"]], 2) == ["c", "d"]
    assert choose_gpus(gpus, [["b"], ["a", "c"]], 1) == ["d"]
    assert choose_gpus(gpus, [["a"], ["b"], ["c"], ["d"], ["a"]], 1) == ["b"]


def test_auto_is_a_job_for_each_group_of_gpus(monkeypatch):
    monkeypatch.setattr("attnx.sweeps.gpus.available_cores", lambda: 7)
    one, two = compose([]), compose(["trainer=ddp", "trainer.devices=2"])
    assert count_parallel_jobs("auto", [one], ["a", "b", "c"]) == 3
    assert count_parallel_jobs("auto", [one, two], ["a", "b", "c", "d", "e"]) == 2
    assert count_parallel_jobs("auto", [one], []) == 7
    assert count_parallel_jobs("auto", [compose(["trainer.accelerator=cpu"])], ["a"]) == 7
    assert count_parallel_jobs(5, [one], ["a"]) == 5  # they share it
    assert count_parallel_jobs(1, [two], ["a", "b"]) == 1
    with pytest.raises(UserError, match="-j 3: 3 jobs with 2 GPUs each need 6, and 4 are visible; use -j 2"):
        count_parallel_jobs(3, [one, two], ["a", "b", "c", "d"])


def test_more_jobs_than_groups_of_gpus_are_refused(refuse, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d")
    line = refuse("-m", "-j", "3", "trainer=ddp", "trainer.devices=2", "seed=1,2,3")
    assert line == "attnx: -j 3: 3 jobs with 2 GPUs each need 6, and 4 are visible; use -j 2 or fewer\n"


def test_jobs_see_their_own_gpus(sweep, monkeypatch):
    """Ids of no real GPU, which a process without CUDA does not open."""
    write_plug_in("spy", SPY)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    answer = sweep("scorer=spy", "seed=1,2,3", "name=spied", "-j", "auto")
    assert answer.code == 0, answer.err
    seen = Path("seen.txt").read_text(encoding="utf-8").split()
    assert {gpu for gpu in seen if "," not in gpu} == {"GPU-a", "GPU-b"}
    started = [line for line in answer.out.splitlines() if " running: " in line]
    assert [line.rpartition(" on GPU ")[2].partition(" ->")[0] for line in started[:2]] == ["0", "1"]

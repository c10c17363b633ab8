"""Processes that torchrun, srun or another launcher has started train one run, and mistakes are one line."""

import contextlib
import os
import re
import socket
import sys
from pathlib import Path

import pytest
import torch

import attnx
from attnx.cli import main
from attnx.errors import UserError
from attnx.training.distributed.devices import launched_info, resolve_devices
from attnx.training.distributed.launched_rank import SLURM_VARIABLES, TORCH_VARIABLES, RankInfo, launched_rank
from tests.runs.conftest import change_info, run_info

SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_NODELIST": "localhost",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_NODEID": "0",
}


# Of eight tasks on two machines those on the second.
EIGHT = {**SLURM, "SLURM_NODEID": "1", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2"}
EIGHT |= {"SLURM_STEP_TASKS_PER_NODE": "4(x2)"}


def free_ports(count: int) -> list[str]:
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [str(free.getsockname()[1]) for free in sockets]


PORTS = free_ports(2)
TORCH = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": PORTS[0]}
TORCH |= {"GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "none"}
ONE_A_MACHINE = {"NODE_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": PORTS[1]}
# What torch's C++ code writes, with its stack, while a busy machine lets rank 0 be late.
RETRY = re.compile(r"^\[W.* - retrying .*\n(?:Exception raised .*\n|<omitting .*\n|frame #.*\n|\n)*", re.MULTILINE)


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    """The tests themselves may run within a job."""
    for name in {*TORCH_VARIABLES, *SLURM_VARIABLES, *SLURM, *TORCH}:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run_ranks(fork_command):
    """Give the command to forks of this process, each with its environment; return exit codes and output."""

    def run(environments: list[dict[str, str]], words: list[str]) -> list[tuple[int, str]]:
        ranks = [fork_command(*words, **variables) for variables in environments]
        outputs = ["".join(rank.communicate()) for rank in ranks]
        return [(rank.returncode, output) for rank, output in zip(ranks, outputs, strict=True)]

    return run


def two_ranks(variables: dict[str, str], rank_name: str, local_name: str) -> list[dict[str, str]]:
    return [{**variables, rank_name: number, local_name: number} for number in "01"]


@pytest.mark.usefixtures("words", "no_pictures")
def test_tasks_of_srun_are_ranks_of_one_run(run_ranks, sized):
    ranks = two_ranks(SLURM, "SLURM_PROCID", "SLURM_LOCALID")
    (first, shown), (second, silent) = run_ranks(ranks, sized("trainer=ddp", "folder=one"))
    assert (first, second, RETRY.sub("", silent)) == (0, 0, ""), shown + silent
    assert run_info("one")["processes"] == 2
    assert "test_per" in shown
    assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["one"]


@pytest.mark.usefixtures("words", "no_pictures")
def test_a_script_may_train_again(run_ranks, sized, monkeypatch):
    """After a run, and after a mistake that all ranks find; the launcher's variables stay."""
    config = attnx.compose(sized("trainer=ddp", "trainer.devices=2", "trainer.test_examples=5"))

    def script() -> None:
        variables = {name: os.environ.get(name) for name in TORCH_VARIABLES}
        for folder, data in {"one": "words.tsv", "none": "nowhere.tsv", "two": "words.tsv"}.items():
            with contextlib.suppress(UserError):
                attnx.fit({**config, "folder": folder, "task": {**config["task"], "train": data}})
            assert {name: os.environ.get(name) for name in TORCH_VARIABLES} == variables
        sys.exit(0)

    monkeypatch.setattr(main, "main", script)
    results = run_ranks(two_ranks(TORCH, "RANK", "LOCAL_RANK"), [])
    assert [code for code, _ in results] == [0, 0], results
    assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["one", "two"]
    assert {run_info(name)["processes"] for name in ("one", "two")} == {2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scorer=aditive"], "unknown scorer 'aditive'; did you mean additive?"),
        (["task.train=nowhere.tsv"], "task.train: nowhere.tsv: no such file"),
        (["trainer.devices=3"], "trainer.devices=3, but torchrun started 2 ranks on each of 1 machine; leave it out"),
        (["trainer=ddp", "trainer.num_nodes=2"], "trainer.num_nodes=2, but torchrun started 2 ranks on each of 1"),
        (["-m", "seed=1,2"], "torchrun started several processes, and a sweep starts its own"),
    ],
)
def test_a_mistake_is_one_line_of_one_rank(words, message, run_ranks, work_folder):
    """And nothing is written."""
    (first, shown), (second, silent) = run_ranks(two_ranks(TORCH, "RANK", "LOCAL_RANK"), words)
    assert (first, second, silent) == (2, 2, "")
    assert shown.startswith(f"attnx: {message}")
    assert shown.count("\n") == 1
    assert not list(work_folder.iterdir())


@pytest.mark.usefixtures("words", "no_pictures")
def test_a_world_that_does_not_fit_a_run_is_refused(run, run_ranks):
    run(folder="one")
    change_info("one", status="interrupted")
    Path("one/README.md").unlink()
    (first, shown), (second, silent) = run_ranks(two_ranks(TORCH, "RANK", "LOCAL_RANK"), ["resume", "one"])
    assert (first, second, silent) == (2, 2, "")
    assert shown.startswith("attnx: trainer.devices=1, but torchrun started 2 ranks on each of 1 machine")


@pytest.mark.usefixtures("words", "no_pictures")
def test_the_main_rank_alone_draws_again(run, run_ranks, monkeypatch):
    """Where a run was killed after its results were written."""
    run(folder="one")
    Path("one/README.md").unlink()
    monkeypatch.setattr(
        "attnx.training.fit.build_reports", lambda folder: Path(f"drawn-by-{os.environ['RANK']}").touch()
    )
    (first, shown), (second, silent) = run_ranks(two_ranks(TORCH, "RANK", "LOCAL_RANK"), ["resume", "one"])
    assert (first, second, silent) == (0, 0, ""), shown
    assert [path.name for path in Path().glob("drawn-by-*")] == ["drawn-by-0"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({**TORCH, "RANK": "1", "LOCAL_RANK": "1"}, RankInfo(1, 2, 1, 2, 0, launcher="torchrun")),
        ({**TORCH, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}, None),
        (
            {**TORCH, "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "6", "GROUP_RANK": "2"},
            RankInfo(5, 6, 1, 2, 2, launcher="torchrun"),
        ),
        ({**SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, RankInfo(1, 2, 1, 2, 0, launcher="srun")),
        # One task a machine starts the ranks itself.
        ({**SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "2"}, None),
        ({**EIGHT, "SLURM_PROCID": "6", "SLURM_LOCALID": "2"}, RankInfo(6, 8, 2, 4, 1, launcher="srun")),
        # A script of sbatch is no task of srun.
        ({"SLURM_JOB_ID": "77", "SLURM_NTASKS": "2", "SLURM_PROCID": "0"}, None),
        # One process a machine starts the ranks itself.
        (ONE_A_MACHINE, None),
    ],
)
def test_the_environment_gives_the_rank(variables, expected, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert launched_rank() == expected


@pytest.mark.parametrize(("task", "expected"), [("shell", None), ("command", RankInfo(0, 2, 0, 2, 0, launcher="srun"))])
def test_a_shell_of_srun_runs_no_rank(task, expected, monkeypatch):
    """``srun --ntasks=2 --pty bash`` shows a terminal to the first task: a shell, or the command itself."""
    for name, value in {**SLURM, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_TASK_PID", str(os.getpid()) if task == "command" else "1")
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 0)
    assert launched_rank() == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({**TORCH, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "3"}, "started 3 processes, 2 of them"),
        (
            {**SLURM, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "2,1"}
            | {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "2"},
            "srun started 2,1 processes on 2 machines; start equally many on each",
        ),
        (
            {**TORCH, "RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_MAX_RESTARTS": "3"},
            "torchrun --max-restarts would begin the run anew",
        ),
        ({**TORCH, "RANK": "zero", "LOCAL_RANK": "0"}, "environment variable RANK is 'zero'; expected a whole"),
    ],
)
def test_wrong_variables_are_reported(variables, message, monkeypatch, refuse):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert message in refuse("scorer=dot")


def test_a_rank_knows_its_device_and_meeting_point(monkeypatch):
    trainer = {"accelerator": "auto", "devices": None, "num_nodes": 1, "compile": "off", "precision": 32}
    config = {"trainer": trainer}
    task = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_JOB_NODELIST": "gpu[7-8]"}
    for name, value in {**EIGHT, **task}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    trainer = resolve_devices(config)["trainer"]
    assert (trainer["devices"], trainer["num_nodes"]) == (4, 2)
    info = launched_info(trainer)
    assert info is not None
    assert (info.rank, info.world_size, info.local_rank, info.node_rank, info.backend) == (5, 8, 1, 1, "nccl")
    assert info.init_method == "tcp://gpu7:20077"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match="srun shows one GPU to each of the 4 tasks on this machine"):
        resolve_devices(config)

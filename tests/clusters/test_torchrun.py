"""A real torchrun starts and stops one run on two machines."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")]
SECONDS = 240.0  # only for what would never end


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def start_machines(*words: str) -> list[subprocess.Popen[str]]:
    """Start the command by the torchruns of two machines with a rank each."""
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--local-addr=localhost"]
    torchrun = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", *meeting]
    command = [sys.executable, *torchrun, "-m", "attnx", *words]
    pipe = subprocess.PIPE
    return [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]


def wait_until(is_true: Callable[[], object]) -> None:
    start = time.monotonic()
    while not is_true():
        assert time.monotonic() - start < SECONDS
        time.sleep(0.05)


def saved_times() -> list[int]:
    """When the last checkpoint of each run was saved."""
    return [file.stat().st_mtime_ns for file in Path("multirun/runs").glob("*/checkpoints/last.ckpt")]


@pytest.mark.usefixtures("forked_ranks")
def test_torchrun_trains_what_the_command_trains(sized, run, fork_command, same_weights):
    """On two machines, although both are stopped and resumed."""
    options = ["trainer.max_steps=120", "trainer.num_validations=12", "model.dropout=0.2"]
    run(*options, "trainer=ddp", "trainer.devices=2", folder="one")
    machines = start_machines(*sized(*options))
    wait_until(saved_times)
    for machine in machines:
        machine.send_signal(signal.SIGTERM)
    outputs = [machine.communicate(timeout=SECONDS) for machine in machines]
    (folder,) = Path("multirun/runs").iterdir()
    assert any(f"attnx: ended by SIGTERM; resume with: attnx resume {folder}\n" in err for _, err in outputs), outputs
    assert not any("no checkpoint yet" in out for out, _ in outputs)
    assert torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["global_step"] < 120
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
    world |= {"MASTER_PORT": free_port(), "TORCHELASTIC_RUN_ID": "none"}
    ranks = [fork_command("resume", str(folder), RANK=number, GROUP_RANK=number, **world) for number in "01"]
    results = ["".join(rank.communicate()) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], results
    assert sum(output.count("testing on") for output in results) == 1
    assert same_weights(["one", folder])
    assert Path("one/predictions.tsv").read_bytes() == (folder / "predictions.tsv").read_bytes()
    info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert (info["processes"], info["overrides"][0]) == (2, "trainer=ddp")

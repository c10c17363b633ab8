"""Data workers: full shared memory gives one line, and no worker is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnx.training.loaders import is_out_of_shared_memory

# A page each: seventeen semaphores are taken at once by two workers, a tensor takes one more.
PAGES = 20
WORKERS = ["trainer.num_workers=2", "folder=run"]


def with_shared_memory(*words: str) -> subprocess.CompletedProcess[str]:
    """The command where shared memory has few pages: in a mount namespace of its own."""
    if sys.platform != "linux" or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a mount namespace (unshare -m)")
    script = f'mount -t tmpfs -o size={4 * PAGES}k tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "attnx", *words]
    return subprocess.run(command, capture_output=True, text=True, start_new_session=True)


def test_full_shared_memory_ends_a_run_with_one_line(words: Path, small: list[str]) -> None:
    """It waited for ever: what the queue's own thread could not share was lost."""
    answer = with_shared_memory(*small, *WORKERS)
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("attnx: the data workers ran out of shared memory (/dev/shm is full): free some")
    assert "num_workers: 0 below trainer: in run/config.yaml (trainer.num_workers=0 of a new run)" in answer.stderr
    assert answer.stderr.endswith("resume with: attnx resume run\n")


PARENT = """
import sys, time
from multiprocessing import Process, Event
from attnx.training.loaders import begin_worker

def work(ready):
    begin_worker(0)
    ready.set()
    time.sleep(600)

ready = Event()
child = Process(target=work, args=[ready])
child.start()
ready.wait()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker looks once a second")
def test_a_worker_ends_with_its_parent() -> None:
    """However the parent ended: here it is killed."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_running(worker)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        while is_running(worker):
            time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether the process runs and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_shared_memory_errors_are_recognized() -> None:
    assert is_out_of_shared_memory(RuntimeError("unable to allocate shared memory(shm) for file </torch_7>: No space"))
    assert is_out_of_shared_memory(RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. "))
    assert not is_out_of_shared_memory(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."))
    assert not is_out_of_shared_memory(OSError(28, "No space left on device", "run.json"))
    assert os.strerror(28) == "No space left on device"

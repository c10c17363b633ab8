"""Data workers: full shared memory gives one line, and no worker is left running."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attnx.training.loaders import begin_worker, is_out_of_shared_memory

# A page each: seventeen semaphores are taken at once by two workers, a tensor takes one more.
PAGES = 20
WORKERS = ["trainer.num_workers=2", "folder=run"]
CLONE_NEWNS = 0x20000  # sched.h
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def little_shared_memory():
    """Give the process that calls it few pages of shared memory: in a mount namespace of its own."""
    if sys.platform != "linux" or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a mount namespace (unshare -m)")

    def mount() -> None:
        assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4 * PAGES}k", "tmpfs", "/dev/shm"], check=True)

    return mount


def test_full_shared_memory_ends_a_run_with_one_line(words, small, little_shared_memory, fork_command):
    """It waited for ever: what the queue's own thread could not share was lost."""
    command = fork_command(*small, *WORKERS, prepare=little_shared_memory)
    _, err = command.communicate()
    assert command.returncode == 1
    assert err.count("\n") == 1
    assert err.startswith("attnx: the data workers ran out of shared memory (/dev/shm is full): free some")
    assert "num_workers: 0 below trainer: in run/config.yaml (trainer.num_workers=0 of a new run)" in err
    assert err.endswith("resume with: attnx resume run\n")


def wait_with_worker(ready: Any) -> None:
    """Be a parent that waits, as its worker does."""

    def work() -> None:
        begin_worker(0)
        ready.send(os.getpid())
        time.sleep(600)

    worker = FORK.Process(target=work)
    worker.start()
    worker.join()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker looks once a second")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_worker_ends_with_its_parent():
    """However the parent ended: here it is killed."""
    receiver, ready = FORK.Pipe(duplex=False)
    parent = FORK.Process(target=wait_with_worker, args=[ready])
    parent.start()
    ready.close()
    worker = receiver.recv()
    assert is_running(worker)
    parent.kill()
    parent.join()
    while is_running(worker):
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether the process runs and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_shared_memory_errors_are_recognized():
    assert is_out_of_shared_memory(RuntimeError("unable to allocate shared memory(shm) for file </torch_7>: No space"))
    assert is_out_of_shared_memory(RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. "))
    assert not is_out_of_shared_memory(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."))
    assert not is_out_of_shared_memory(OSError(28, "No space left on device", "run.json"))
    assert os.strerror(28) == "No space left on device"

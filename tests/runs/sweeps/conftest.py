"""Fixtures of sweeps: small runs without pictures, and a scorer that fails on command."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attnx.sweeps.session import SweepSession
from tests.runs.conftest import write_plug_in

# A scorer that does what the files beside it say: fall over, end by a signal, or wait to be interrupted or to go on.
MOODY = """\
import os, signal, time
from pathlib import Path

import torch

from attnx.attention.scorers.dot import Dot
from attnx.registry import register
from attnx.training.distributed.slurm import stop_signals


@register("scorer", "moody")
class Moody(Dot):
    def score(self, queries, keys):
        self.calls = getattr(self, "calls", 0) + self.training
        if self.calls == 4 and self.training:  # the first validation comes after three steps
            print(f"process {os.getpid()}, {torch.get_num_threads()} thread(s)")
            if Path("fall").exists():
                raise RuntimeError("I have fallen over")
            if Path("die").exists():
                os.kill(os.getpid(), signal.SIGKILL)
            if Path("wait").exists():
                self.wait()
        return super().score(queries, keys)

    def wait(self):
        before, heard = signal.getsignal(signal.SIGINT), []
        for number in stop_signals():
            signal.signal(number, lambda *what: heard.append(before(*what)))
        Path(f"reached-{os.getpid()}").touch()
        while not heard and not Path("go").exists():
            time.sleep(0.01)
"""
SECONDS = 0.01


@pytest.fixture
def sweep(command, words, small, shared_server):
    """Sweep over small runs of five steps."""

    def run_sweep(*overrides: str) -> Any:
        given_keys = {word.partition("=")[0].lstrip("+") for word in overrides}
        return command("-m", *overrides, *[size for size in small if size.partition("=")[0] not in given_keys])

    return run_sweep


@pytest.fixture
def pruned_jobs():
    """No job of a sweep is trained: each is pruned as it would begin."""

    def prune(running: SweepSession, jobs: Iterator[Any], *_: Any) -> None:
        for job, _ in jobs:
            job.status = "pruned"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepSession, "run", prune)
        yield


@pytest.fixture
def moody(work_folder):
    """The scorer with moods, in force."""
    return write_plug_in("moody", MOODY)


@pytest.fixture
def fork_sweep(words, sized, no_pictures_folder, shared_server, fork_command):
    """Start a sweep in a fork of this process."""
    return lambda *overrides: fork_command(*sized("-m", *overrides), PYTHONPATH=no_pictures_folder)


@pytest.fixture
def start_command(words, sized, no_pictures_folder):
    """Start the command in a process of its own."""

    def start(*args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "attnx", *sized(*args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": no_pictures_folder},
            process_group=0,  # a terminal's Ctrl-C reaches all of it
        )

    return start


def jobs_that_wait(count: int, is_running: Callable[[], bool]) -> list[int]:
    """The processes of jobs that wait, once there are so many, or once nothing runs that could start more."""
    while len(files := list(Path().glob("reached-*"))) < count and is_running():
        time.sleep(SECONDS)
    return [int(file.name.partition("-")[2]) for file in files]


@pytest.fixture
def wait_for_jobs():
    """The processes of jobs that wait, once there are so many; fails when what starts them has ended before."""

    def wait(is_running: Callable[[], bool], count: int = 1) -> list[int]:
        jobs = jobs_that_wait(count, is_running)
        assert len(jobs) >= count, f"{len(jobs)} of {count} jobs have started, and no more will"
        return jobs

    return wait


@pytest.fixture
def when_jobs_wait():
    """Act on the processes of jobs, once so many of this process's sweep wait; not at all when the test ends before."""
    threads, has_ended = [], threading.Event()

    def set_up(act: Callable[[list[int]], None], count: int = 1) -> None:
        def watch() -> None:
            if len(jobs := jobs_that_wait(count, lambda: not has_ended.is_set())) >= count:
                act(jobs)

        threads.append(threading.Thread(target=watch))
        threads[-1].start()

    yield set_up
    has_ended.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def stop_sweep(when_jobs_wait):
    """Send a signal to the sweep of this process, once so many of its jobs wait."""
    return lambda number, count=1: when_jobs_wait(lambda jobs: os.kill(os.getpid(), number), count)


@pytest.fixture
def clear_moods():
    """Let the jobs run without faults from now on."""

    def forget() -> None:
        for mood in ("wait", "fall", "die"):
            Path(mood).unlink(missing_ok=True)
        for file in Path().glob("reached-*"):
            file.unlink()

    return forget

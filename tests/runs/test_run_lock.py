"""A run is trained by one process at a time, and a killed one leaves no lock behind."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.files.file_lock import is_lock_held
from attnx.runs.info import RunStatus
from attnx.runs.run import Run, lock_run
from attnx.sweeps.job_process import WAITING, train_or_resume
from attnx.training.fit import resume
from tests.runs.conftest import change_info, file_contents

HOLDER = """
import os, time
from pathlib import Path
from attnx.runs.run import lock_run
with lock_run(Path(".")):
    if os.fork() == 0:  # the worker speaks, so that it has let go of the lock when it is heard
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.usefixtures("words", "no_pictures")
def test_a_run_that_is_being_trained_is_not_resumed(run):
    """One line, and nothing of it is changed."""
    run(folder="one")
    change_info("one", status="interrupted")
    Path("one/README.md").unlink()
    contents = file_contents("one")
    message = "^one: another process trains this run; wait for its end, or stop it first$"
    with lock_run(Path("one")), pytest.raises(UserError, match=message):
        resume("one")
    assert file_contents("one") == contents
    resume("one")


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of the test's folder; its worker ends with the test."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        yield process
        process.kill()
        os.kill(worker, signal.SIGKILL)


def test_a_killed_run_is_shown_as_stopped_at_once(holder, tmp_path):
    """Its lock file says that a process of this machine held it; of another machine's, only silence tells."""
    (tmp_path / "run.json").write_text(json.dumps({"format": 1, "status": "running"}), encoding="utf-8")
    assert Run(tmp_path).status == RunStatus.RUNNING
    holder.kill()
    holder.wait()
    assert Run(tmp_path).status == RunStatus.STOPPED
    (tmp_path / "run.lock").write_text("elsewhere", encoding="utf-8")
    assert Run(tmp_path).status == RunStatus.RUNNING


def test_a_second_start_in_the_folder_of_a_run_changes_nothing(words, command, sized):
    """Also before the first one has written anything."""
    Path("one").mkdir()
    message = "one: another process trains this run; wait for its end, or stop it first"
    with lock_run(Path("one")):
        answer = command(*sized(f"task.train={words}", "folder=one"))
        assert (answer.code, answer.err) == (2, f"attnx: {message}\n")
        assert [path.name for path in Path("one").iterdir()] == ["run.lock"]
    assert not list(Path("one").iterdir())


@pytest.mark.usefixtures("no_pictures")
def test_a_job_waits_for_the_end_of_who_trains_in_its_folder(words, sized, capfd):
    """It says so in its log, and does not empty the folder meanwhile."""
    Path("one").mkdir()
    config = {**compose(sized(f"task.train={words}")), "folder": "one"}
    with lock_run(Path("one")):
        Path("one/kept").touch()
        job = threading.Thread(target=train_or_resume, args=(config, []))
        job.start()
        while WAITING not in capfd.readouterr().out:
            assert job.is_alive()
            time.sleep(0.01)
        assert {path.name for path in Path("one").iterdir()} == {"run.lock", "kept"}
    job.join()
    assert Run(Path("one")).status == RunStatus.FINISHED
    assert not Path("one/kept").exists()


@pytest.mark.usefixtures("no_pictures")
def test_the_list_of_a_runs_files_has_what_is_there_afterwards(words, command, sized):
    """The lock is not: it goes when the run ends."""
    answer = command(*sized(f"task.train={words}", "folder=one"))
    names = answer.out.splitlines()[-1].strip().split(", ")
    assert names == [path.name + "/" * path.is_dir() for path in sorted(Path("one").iterdir())]


def test_who_only_looks_stops_no_start(tmp_path):
    """A look takes the lock for an instant."""
    (tmp_path / "run.lock").touch()
    with (tmp_path / "run.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (file, fcntl.LOCK_UN)).start()
        with lock_run(tmp_path):
            assert is_lock_held(tmp_path / "run.lock")
    assert not list(tmp_path.iterdir())


def test_a_lock_whose_file_was_removed_is_taken_again(tmp_path, monkeypatch):
    """By who held it before, between the opening of the file and its lock."""
    lock, attempts = fcntl.flock, []

    def remove_first(descriptor: int, operation: int) -> None:
        if not attempts:
            (tmp_path / "run.lock").unlink()
        attempts.append(descriptor)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with lock_run(tmp_path):
        assert (tmp_path / "run.lock").is_file()
    assert len(attempts) == 2


def test_a_worker_of_a_killed_process_holds_no_lock(holder, tmp_path):
    with pytest.raises(UserError, match="another process trains this run"), lock_run(tmp_path):
        pass
    holder.kill()
    holder.wait()
    with lock_run(tmp_path):
        pass

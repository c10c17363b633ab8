"""A run is trained by one process at a time, and a killed one leaves no lock behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnx.errors import UserError
from attnx.training.fit import resume
from attnx.training.run_lock import lock_run

HOLDER = """
import os, time
from pathlib import Path
from attnx.training.run_lock import lock_run
with lock_run(Path(".")):
    if os.fork() == 0:  # the worker speaks, so that it has let go of the lock when it is heard
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.usefixtures("words", "no_pictures")
def test_a_run_that_is_being_trained_is_not_resumed(run: Callable[..., Any]) -> None:
    """One line, and nothing of it is changed."""
    run(folder="one")
    info = json.loads(Path("one/run.json").read_text(encoding="utf-8"))
    Path("one/run.json").write_text(json.dumps({**info, "status": "interrupted"}), encoding="utf-8")
    Path("one/README.md").unlink()
    contents = {path: path.read_bytes() for path in Path("one").rglob("*") if path.is_file()}
    message = "^one: another process trains this run; wait for its end, or stop it first$"
    with lock_run(Path("one")), pytest.raises(UserError, match=message):
        resume("one")
    assert {path: path.read_bytes() for path in Path("one").rglob("*") if path.is_file()} == contents
    resume("one")


def test_a_worker_of_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        with pytest.raises(UserError, match="another process trains this run"), lock_run(tmp_path):
            pass
        holder.kill()
        holder.wait()
    try:
        with lock_run(tmp_path):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)

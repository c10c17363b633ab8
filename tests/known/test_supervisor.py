"""How several processes end: what their exit codes and the signals that arrived mean for the run."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from attnx.errors import Interrupted, RunFailed, Stopped
from attnx.training.distributed.launched_rank import RankInfo
from attnx.training.distributed.launcher import ProcessSupervisor
from attnx.training.distributed.process_group import RUN_PATH_FILE


class EndedProcess:
    """A process that has ended."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code

    def has_ended(self) -> bool:
        return True


@pytest.fixture
def supervise(tmp_path):
    """Wait for processes with these exit codes, after these signals."""

    def wait(*exit_codes: int, signals: tuple[int, ...] = ()) -> Path:
        processes: Any = [EndedProcess(code) for code in exit_codes]
        ranks = [RankInfo(rank, len(processes), rank) for rank in range(len(processes))]
        supervisor = ProcessSupervisor(processes, ranks, tmp_path)
        for signum in signals:
            supervisor.stop_signal.signum = supervisor.stop_signal.signum or signum
            supervisor.stop_signal.ctrl_c_count += signum == signal.SIGINT
        return supervisor.wait()

    return wait


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "run.json").write_text('{"status": "finished"}', encoding="utf-8")
    (tmp_path / RUN_PATH_FILE).write_text(str(folder), encoding="utf-8")
    return folder


def test_ctrl_c_after_the_end_changes_nothing(supervise, run_folder):
    assert supervise(0, 0, signals=(signal.SIGINT,)).resolve() == run_folder
    assert json.loads((run_folder / "run.json").read_text(encoding="utf-8")) == {"status": "finished"}


def test_a_signal_before_training_is_no_failure(supervise):
    with pytest.raises(Stopped, match="training had not begun") as stop:
        supervise(-signal.SIGTERM, -signal.SIGKILL, signals=(signal.SIGTERM,))
    assert stop.value.signum == signal.SIGTERM


def test_a_signal_that_rank_0_could_not_note_interrupts(supervise, run_folder):
    with pytest.raises(Interrupted) as stop:
        supervise(-signal.SIGTERM, -signal.SIGKILL, signals=(signal.SIGTERM,))
    assert stop.value.signum == signal.SIGTERM
    assert json.loads((run_folder / "run.json").read_text(encoding="utf-8"))["status"] == "interrupted"


def test_a_rank_that_was_killed_is_a_failure(supervise, run_folder):
    with pytest.raises(RunFailed, match="rank 1 of 2"):
        supervise(0, -signal.SIGSEGV)
    assert json.loads((run_folder / "run.json").read_text(encoding="utf-8"))["status"] == "failed"

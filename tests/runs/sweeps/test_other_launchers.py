"""Other Hydra launchers run the same jobs in the same folders."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from attnx.cli import sweep as sweep_command
from attnx.runs.sweep import read_sweep
from attnx.sweeps.session import is_stop_requested


def launcher_param(launcher: str, module: str) -> Any:
    spec = importlib.util.find_spec(module.partition(".")[0]) and importlib.util.find_spec(module)
    return pytest.param(launcher, marks=pytest.mark.skipif(spec is None, reason=f"{module} is not installed"))


LAUNCHERS = [
    launcher_param("joblib", "hydra_plugins.hydra_joblib_launcher"),
    launcher_param("slurm_here", "submitit"),
]


@pytest.fixture(autouse=True)
def _no_idle_workers():
    """End the processes that joblib keeps for later jobs."""
    yield
    if "joblib" in sys.modules:
        sys.modules["joblib"].externals.loky.get_reusable_executor().shutdown(kill_workers=True)


def test_ctrl_c_during_another_launcher_prints_how_to_resume(sweep, monkeypatch):
    def press(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_command, "run_hydra", press)
    answer = sweep("scorer=dot", "name=one")
    assert (answer.code, answer.err) == (130, "attnx: interrupted; resume with: attnx resume multirun/one\n")
    assert read_sweep("multirun/one").status == "interrupted"
    assert answer.out.splitlines()[-1] == "multirun/one/report.html"


def test_joblib_runs_the_jobs_and_isolates_failures(moody, sweep, no_pictures_folder, clear_moods, monkeypatch):
    """The scorer is a plug-in of the working folder, so plug-ins reach the workers."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    monkeypatch.setenv("PYTHONPATH", no_pictures_folder)
    Path("fall").touch()
    arguments = ["hydra/launcher=joblib", "scorer=moody,dot", "name=two"]
    answer = sweep(*arguments)
    record = read_sweep("multirun/two")
    assert (answer.code, [job.status for job in record.jobs]) == (1, ["failed", "finished"]), answer.err
    message = str(record.jobs[0].error)
    assert "RuntimeError: I have fallen over" in message
    assert f"scorer=moody: {message}; see multirun/two/0/log.txt" in answer.err
    assert "Traceback" in Path("multirun/two/0/error.txt").read_text(encoding="utf-8")
    saved = Path("multirun/two/1/checkpoints/last.ckpt").stat().st_mtime_ns
    clear_moods()
    answer = sweep(*arguments)
    assert answer.code == 0, answer.err
    assert [job.status for job in read_sweep("multirun/two").jobs] == ["finished", "finished"]
    assert Path("multirun/two/1/checkpoints/last.ckpt").stat().st_mtime_ns == saved


@pytest.mark.parametrize(
    ("launcher", "options", "send", "signum"),
    [
        pytest.param(*LAUNCHERS[0].values, ["-j", "2", "seed=1,2"], os.killpg, signal.SIGINT, marks=LAUNCHERS[0].marks),
        pytest.param(*LAUNCHERS[1].values, ["seed=1"], os.kill, signal.SIGTERM, marks=LAUNCHERS[1].marks),
    ],
)
def test_a_signal_makes_the_jobs_of_another_launcher_save_and_end(
    launcher, options, send, signum, moody, fork_sweep, wait_for_jobs
):
    """As under the default one; a terminal's Ctrl-C reaches joblib's workers, too."""
    Path("wait").touch()
    process = fork_sweep(*options, f"hydra/launcher={launcher}", "scorer=moody", "name=cut")
    count = options[-1].count(",") + 1
    wait_for_jobs(lambda: not process.has_ended(), count)
    send(process.pid, signum)
    _, err = process.communicate()
    assert process.returncode == 128 + signum, err
    assert err.endswith("resume with: attnx resume multirun/cut\n")
    record = read_sweep("multirun/cut")
    assert (record.status, [job.status for job in record.jobs]) == ("interrupted", ["interrupted"] * count)
    for job in record.jobs:
        assert "attnx: interrupted\n" in record.log(job).read_text(encoding="utf-8")
        assert (record.folder(job) / "checkpoints" / "last.ckpt").is_file()
    assert not is_stop_requested(record.path)


@pytest.mark.parametrize(("options", "count"), [((), 1), (("-j", "2"), 2)])
def test_joblib_runs_as_many_jobs_at_a_time_as_the_command_says(options, count, sweep, monkeypatch):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    received: list[str] = []

    def note_words(argv: Sequence[str], *_: Any) -> int:
        received.extend(argv)
        return 0

    monkeypatch.setattr(sweep_command, "run_hydra", note_words)
    sweep(*options, "hydra/launcher=joblib", "scorer=dot,scaled")
    assert f"hydra.launcher.n_jobs={count}" in received

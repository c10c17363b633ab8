"""Other Hydra launchers run the same jobs in the same folders."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnx.cli import hydra
from attnx.runs.sweep import read_sweep


def launcher_param(launcher: str, module: str) -> Any:
    spec = importlib.util.find_spec(module.partition(".")[0]) and importlib.util.find_spec(module)
    return pytest.param(launcher, marks=pytest.mark.skipif(spec is None, reason=f"{module} is not installed"))


LAUNCHERS = [
    launcher_param("joblib", "hydra_plugins.hydra_joblib_launcher"),
    launcher_param("slurm_here", "submitit"),
    launcher_param("ray", "hydra_plugins.hydra_ray_launcher"),
]


def test_ctrl_c_during_another_launcher_prints_how_to_resume(
    command: Callable[..., Any], words: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(hydra, "_run_hydra", press)
    answer = command("-m", "scorer=dot", "name=one", *small)
    assert (answer.code, answer.err) == (130, "attnx: interrupted; resume with: attnx resume multirun/one\n")
    assert read_sweep("multirun/one").status == "interrupted"
    assert answer.out.splitlines()[-1] == "multirun/one/report.html"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_another_launcher_runs_the_jobs_and_isolates_failures(
    launcher: str, moody: Path, words: Path, small: list[str], no_pictures_folder: str, clear_moods: Callable[[], None]
) -> None:
    """The scorer is a plug-in of the working folder, so plug-ins reach the workers."""
    Path("fall").touch()
    arguments = [
        sys.executable,
        "-m",
        "attnx",
        "-m",
        f"hydra/launcher={launcher}",
        "scorer=moody,dot",
        "name=two",
        *small,
    ]
    environment = {**os.environ, "PYTHONPATH": no_pictures_folder}

    def run_command() -> subprocess.CompletedProcess[str]:
        return subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)

    done = run_command()
    record = read_sweep("multirun/two")
    assert (done.returncode, [job.status for job in record.jobs]) == (1, ["failed", "finished"]), done.stderr
    message = str(record.jobs[0].error)
    assert "RuntimeError: I have fallen over" in message
    assert f"scorer=moody: {message}; see multirun/two/0/log.txt" in done.stderr
    assert "Traceback" in Path("multirun/two/0/error.txt").read_text(encoding="utf-8")
    saved = Path("multirun/two/1/checkpoints/last.ckpt").stat().st_mtime_ns
    clear_moods()
    done = run_command()
    assert done.returncode == 0, done.stderr
    assert [job.status for job in read_sweep("multirun/two").jobs] == ["finished", "finished"]
    assert Path("multirun/two/1/checkpoints/last.ckpt").stat().st_mtime_ns == saved

"""How a sweep waits for the jobs that SLURM has; tests/clusters runs them."""

import io
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from attnx.cli import sweep as sweep_command
from attnx.errors import Stopped, UserError
from attnx.runs.run import lock_run
from attnx.runs.sweep import Sweep, SweepJob, read_sweep
from attnx.sweeps import slurm_jobs
from attnx.sweeps.job_process import train_or_resume
from attnx.sweeps.record import save_sweep
from attnx.sweeps.session import SweepSession
from tests.run_folder import write_run_folder
from tests.runs.conftest import run_info

UncompletedJobError = pytest.importorskip("submitit.core.utils").UncompletedJobError
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_a_search_cannot_be_detached(refuse):
    pytest.importorskip("optuna")
    line = refuse("-m", "hydra/sweeper=search", "hydra/launcher=slurm", "hydra.launcher.detach=true")
    assert line.startswith("attnx: hydra.launcher.detach=true: a search chooses its next job by results")


def test_a_job_still_on_the_cluster_is_awaited(work_folder):
    """As if a command was stopped, its jobs continue, and it is repeated: the later one begins when the run is done."""
    folder, order = Path("multirun/one/0"), list[str]()
    folder.mkdir(parents=True)
    config = {"folder": str(folder)}

    def later() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("attnx.reports.build_all.build_reports", lambda folder: order.append("later"))
            train_or_resume(config, [])

    with lock_run(folder):
        thread = threading.Thread(target=later)
        thread.start()
        thread.join(0.5)
        order.append("earlier")
        write_run_folder(folder)
    thread.join()
    assert order == ["earlier", "later"]


class Handle:
    """A job that was sent, as submitit knows it."""

    def __init__(self, path: Path) -> None:
        self.paths = SimpleNamespace(result_pickle=path, stderr=path.with_name("stderr.txt"))


@pytest.fixture
def submitted_sweep(work_folder):
    """A sweep of a job that was sent, is at work, and has a run folder."""
    job = SweepJob(0, ["scorer=dot"], "running", attempts=1)
    sweep = Sweep(work_folder / "multirun" / "one", "attnx -m", ["scorer=dot"], jobs=[job])
    sweep.folder(job).mkdir(parents=True)
    running = SweepSession(sweep, {}, 1)
    running.screen.console = Console(file=io.StringIO())
    return running, {"4711_0": (job, Handle(work_folder / "result.pkl"))}


def says(running: SweepSession, status: str) -> None:
    """Have the job's run folder say how it stands."""
    write_run_folder(running.sweep.path / "0", readme="# A run\n", status=status)


@pytest.fixture
def asks(monkeypatch):
    """Have SLURM answer one thing after another, each time something else may happen before; no time passes."""

    def set_up(*answers: Callable[[], set[str]]) -> list[int]:
        remaining, calls = list(answers), [0]

        def answer() -> set[str]:
            calls[0] += 1
            return remaining.pop(0)()

        monkeypatch.setattr(slurm_jobs, "queued_jobs", answer)
        monkeypatch.setattr(slurm_jobs, "SQUEUE_SECONDS", 0.0)
        monkeypatch.setattr(slurm_jobs, "POLL_SECONDS", 0.0)
        return calls

    return set_up


def test_a_requeued_job_is_awaited(submitted_sweep, asks, work_folder):
    """It ended once, interrupted, and left a result; SLURM has it again by the second question."""
    running, waiting = submitted_sweep
    says(running, "interrupted")
    (work_folder / "result.pkl").touch()

    def missing() -> set[str]:
        return set()

    def back() -> set[str]:
        return {"4711_0"}

    def done() -> set[str]:
        says(running, "finished")
        return back()

    calls = asks(missing, back, missing, back, done)
    slurm_jobs.wait(running, waiting, slurm_jobs.SlurmQueue(pytest.fail))
    assert calls == [5]
    assert read_sweep(running.sweep.path).jobs[0].status == "finished"


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_a_job_missing_from_slurm_was_interrupted(status, submitted_sweep, asks):
    running, waiting = submitted_sweep
    says(running, status)
    calls = asks(set, set)
    slurm_jobs.wait(running, waiting, slurm_jobs.SlurmQueue(pytest.fail))
    assert calls == [2]
    assert read_sweep(running.sweep.path).jobs[0].status == "interrupted"
    assert run_info(running.sweep.path / "0")["status"] == "interrupted"


def test_without_slurm_commands_job_files_are_read(submitted_sweep, asks, work_folder):
    running, waiting = submitted_sweep
    messages: list[str] = []

    def fail() -> set[str]:
        raise UserError("squeue failed: no controller")

    def fail_as_it_ends() -> set[str]:
        says(running, "finished")
        (work_folder / "result.pkl").touch()
        return fail()

    asks(fail, fail, fail_as_it_ends)
    slurm_jobs.wait(running, waiting, slurm_jobs.SlurmQueue(messages.append))
    assert messages == ["squeue failed: no controller; waiting for what the jobs write themselves"]
    assert read_sweep(running.sweep.path).jobs[0].status == "finished"


def test_the_last_requeue_is_reported_in_one_line(submitted_sweep, asks, monkeypatch, work_folder):
    """Where submitit has counted the times; the command that waits hears of it by the job's files."""
    running, waiting = submitted_sweep
    save_sweep(running.sweep)

    def count_call(*_: Any) -> None:
        says(running, "interrupted")
        raise UncompletedJobError("Job not requeued because: timed-out too many times.")

    monkeypatch.setattr(slurm_jobs, "run_unless_done", count_call)
    slurm_jobs.RemoteJob(str(running.sweep.path), None, 0, {}, {}, str(work_folder))()
    (work_folder / "result.pkl").touch()
    asks(lambda: {"4711_0"})
    slurm_jobs.wait(running, waiting, slurm_jobs.SlurmQueue(pytest.fail))
    (job,) = read_sweep(running.sweep.path).jobs
    assert (job.status, job.error) == ("failed", slurm_jobs.NOT_REQUEUED)


def test_a_job_that_ended_before_attnx_started_has_failed(submitted_sweep, asks, work_folder):
    """As on a machine without the working folder, or by a wrong ``setup``."""
    running, waiting = submitted_sweep
    asks(set, set)
    slurm_jobs.wait(running, waiting, slurm_jobs.SlurmQueue(pytest.fail))
    (job,) = read_sweep(running.sweep.path).jobs
    printed = work_folder / "stderr.txt"
    assert (job.status, job.error) == ("failed", f"it ended before attnx started; what it printed is in {printed}")


def test_a_queued_job_of_a_sweep_that_started_over_does_nothing(submitted_sweep, monkeypatch, work_folder):
    """It would train its own configuration in the folder of another job."""
    started: list[str] = []
    monkeypatch.setattr(slurm_jobs, "run_unless_done", lambda sweep, *_: started.append(sweep.created))
    running, _ = submitted_sweep
    jobs = []
    for created in ("2031-05-07T11:13:17", "2031-05-07T11:17:19"):
        running.sweep.created = created
        save_sweep(running.sweep)
        jobs.append(slurm_jobs.RemoteJob(str(running.sweep.path), created, 0, {}, {}, str(work_folder)))
    for job in jobs:
        job()
    assert started == ["2031-05-07T11:17:19"]


def test_a_stopped_command_leaves_slurm_its_jobs(submitted_sweep, asks):
    running, waiting = submitted_sweep
    calls = asks(lambda: {"4711_0"}, lambda: signal.raise_signal(signal.SIGTERM) or {"4711_0"})
    with pytest.raises(Stopped, match="resume with: attnx resume ") as caught, running:
        slurm_jobs.wait(running, waiting, slurm_jobs.SlurmQueue(pytest.fail))
    assert (caught.value.signum, calls) == (signal.SIGTERM, [2])
    assert list(waiting) == ["4711_0"]


def test_ctrl_c_prints_how_to_resume(sweep, monkeypatch):
    def press(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sweep_command, "_run_jobs", press)
    answer = sweep("scorer=dot", "name=one")
    assert (answer.code, answer.err) == (130, "attnx: interrupted; resume with: attnx resume multirun/one\n")
    assert read_sweep("multirun/one").status == "interrupted"
    assert answer.out.splitlines()[-1] == "multirun/one/report.html"


def test_submissions_use_a_new_folder(work_folder, monkeypatch):
    """A result that was laid ready would be unpickled."""
    (work_folder / "srun").touch(mode=0o755)  # submitit looks whether it is there
    monkeypatch.setenv("PATH", str(work_folder))
    folders = [Path(slurm_jobs._executor(work_folder / "one", {"timeout_min": 1}).folder) for _ in range(2)]
    assert folders[0] != folders[1]
    assert {folder.parent.parent for folder in folders} == {work_folder / "one" / ".submitit"}
    assert {folder.parent.stat().st_mode & 0o777 for folder in folders} == {0o700}

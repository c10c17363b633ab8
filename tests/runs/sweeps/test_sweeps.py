"""Every combination trains in its own process; failures stay isolated, and nothing is lost."""

import contextlib
import io
import os
import shutil
import signal
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from attnx.cli import sweep as sweep_command
from attnx.config.groups import HYDRA_OPTIONS, check_typed, conf_folder
from attnx.errors import RunFailed, UserError
from attnx.runs.layout import SWEEP_LOCK
from attnx.runs.run import JobProgress, lock_run
from attnx.runs.sweep import Sweep, SweepJob, read_sweep
from attnx.sweeps import session, summary
from attnx.sweeps.processes import ForkServerProcesses
from attnx.sweeps.record import lock_folder, open_record, save_sweep
from attnx.sweeps.session import POLL_SECONDS, SweepSession
from attnx.sweeps.summary import LiveTable
from tests.runs.conftest import change_info, file_contents, run_info, table


def status(folder: str | Path) -> str:
    return str(run_info(folder)["status"])


def parts(folder: Path) -> tuple[str, str]:
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    return config["scorer"]["name"], config["scope"]["name"]


def stands(folder: str) -> list[str]:
    return [job.status for job in read_sweep(folder).jobs]


def attempts(folder: str) -> list[int]:
    return [job.attempts for job in read_sweep(folder).jobs]


def steps(folder: Path) -> list[int]:
    return [int(row["step"]) for row in table(folder / "metrics.csv")]


def report_start(folder: str) -> str:
    """How a sweep's report begins, behind its heading."""
    return Path(folder, "report.md").read_text(encoding="utf-8").splitlines()[2]


def stat(process: int | str) -> list[str]:
    """The state of a process, its parent, and behind 15 more its number of threads; nothing but on Linux."""
    file = Path(f"/proc/{process}/stat")
    return file.read_text(encoding="utf-8").rpartition(")")[2].split() if file.is_file() else []


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return stat(process)[:1] == ["Z"]


def wait_for_end(processes: list[int]) -> None:
    deadline = time.monotonic() + 60
    while not all(map(has_ended, processes)):
        assert time.monotonic() < deadline, "a job goes on"
        time.sleep(POLL_SECONDS / 5)


@pytest.fixture
def finished(sweep, make_once):
    """A finished sweep in ``multirun/two``: give its command once more, with further words."""

    def repeat(*overrides: str) -> Any:
        return sweep("+scorer=dot,scaled", "seed=2", *overrides, "name=two")

    make_once("finished", "multirun", repeat)
    return repeat


def test_a_sweep_trains_every_combination(sweep):
    answer = sweep("+scorer=additive,dot", "+scope=global,local", "name=grid", "--config-dir", ".")
    assert (answer.code, answer.err) == (0, "")
    grid = Path("multirun/grid")
    jobs = [grid / str(number) for number in range(4)]
    assert [parts(job) for job in jobs] == [*product(("additive", "dot"), ("global", "local"))]
    assert {status(job) for job in jobs} == {"finished"}
    assert all(run_info(job)["command"].startswith("attnx --config-dir . ") for job in jobs)
    assert all((job / "results.json").is_file() for job in jobs)
    assert not list(grid.rglob("progress.*"))
    reports = {f"report.{ending}" for ending in ("csv", "effects.csv", "html", "md", "runs.csv", "tex")}
    assert {path.name for path in grid.iterdir()} == {*"0123", "sweep.json", "README.md", *reports}
    assert {path.name for path in Path().iterdir()} == {"multirun", "words.tsv"}


def test_a_sweep_records_its_command_and_job_status(finished):
    record = read_sweep("multirun/two")
    assert (record.name, record.status, record.swept_keys) == ("two", "finished", ["scorer"])
    assert record.command.startswith("attnx -m scorer=dot,scaled")
    assert [job.values["scorer"] for job in record.jobs] == ["dot", "scaled"]
    for job in record.jobs:
        assert (job.status, job.attempts, job.error, job.monitor) == ("finished", 1, None, "valid_per")
        assert job.started is not None
        assert job.ended is not None
        assert job.best == min(float(row["valid_per"]) for row in table(record.folder(job) / "metrics.csv"))
        assert f"seed={2}" in record.log(job).read_text(encoding="utf-8")
    text = Path("multirun/two/README.md").read_text(encoding="utf-8")
    assert "| [1](1) | scaled | finished |" in text


def test_a_job_has_the_weights_of_a_single_run(finished, run, same_weights):
    run("scorer=scaled", "seed=2", folder="alone")
    assert same_weights(["alone", "multirun/two/1"])
    assert not same_weights(["alone", "multirun/two/0"])


def test_every_job_has_its_own_process_and_log(sweep, moody):
    answer = sweep("scorer=moody", "seed=1,2", "name=two")
    assert (answer.code, answer.err) == (0, "")
    logs = [Path(f"multirun/two/{number}/log.txt").read_text(encoding="utf-8").splitlines() for number in range(2)]
    (first,), (second,) = ([line for line in lines if line.startswith("process ")] for lines in logs)
    assert first != second
    assert str(os.getpid()) not in first
    assert "process" not in answer.out


def test_an_unnamed_sweep_has_one_folder_for_any_word_order(sweep):
    assert sweep("+scope=local", "scorer=dot,scaled").code == 0
    saved = {path: path.stat().st_mtime_ns for path in Path("multirun").rglob("last.ckpt")}
    assert len(saved) == 2
    assert sweep("scorer=dot,scaled", "++scope=local").code == 0
    assert {path: path.stat().st_mtime_ns for path in Path("multirun").rglob("last.ckpt")} == saved
    (folder,) = Path("multirun").iterdir()
    assert attempts(str(folder)) == [1, 1]


def test_a_failing_job_is_reported_and_alone_repeated(sweep, command, moody, clear_moods):
    Path("fall").touch()
    answer = sweep("+scorer=moody,dot", "name=two")
    assert answer.code == 1
    assert [status(Path("multirun/two") / str(number)) for number in range(2)] == ["failed", "finished"]
    heading, job_line = answer.err.splitlines()
    assert heading == "attnx: 1 job(s) failed; try them again with: attnx resume multirun/two"
    message = str(read_sweep("multirun/two").jobs[0].error)
    assert "RuntimeError: I have fallen over" in message
    assert job_line == f"  scorer=moody: {message}; see multirun/two/0/log.txt"
    assert "Traceback" in Path("multirun/two/0/error.txt").read_text(encoding="utf-8")
    assert "I have fallen over" in Path("multirun/two/README.md").read_text(encoding="utf-8")
    page = Path("multirun/two/0/README.md")
    assert "RuntimeError: I have fallen over" in page.read_text(encoding="utf-8").partition("## Error\n\n")[2]
    clear_moods()
    answer = command("resume", "multirun/two")
    assert (answer.code, answer.err) == (0, "")
    assert stands("multirun/two") == ["finished", "finished"]
    assert attempts("multirun/two") == [2, 1]
    assert read_sweep("multirun/two").jobs[0].error is None
    assert "## Error" not in page.read_text(encoding="utf-8")
    # It went on from the step of its last checkpoint, so no validation stands there twice.
    assert steps(Path("multirun/two/0")) == [3, 5]


def test_a_refused_job_is_reported(sweep, monkeypatch):
    for check in ("check_files", "check_jobs"):  # as if the file had gone since
        monkeypatch.setattr(f"attnx.cli.sweep.{check}", lambda *_: None)
    answer = sweep("task.train=words.tsv,nowhere.tsv", "name=two")
    assert answer.code == 1
    assert "nowhere.tsv: no such file" in answer.err
    assert "Traceback" not in answer.err
    assert stands("multirun/two") == ["finished", "failed"]
    assert {path.name for path in Path("multirun/two/1").iterdir()} == {"log.txt", "progress.json"}
    words = Path("words.tsv")
    Path("nowhere.tsv").write_bytes(words.read_bytes())
    assert sweep("task.train=words.tsv,nowhere.tsv", "name=two").code == 0
    assert stands("multirun/two") == ["finished", "finished"]


def test_a_killed_job_resumes_from_its_last_checkpoint(sweep, moody, same_weights, clear_moods):
    Path("die").touch()
    answer = sweep("scorer=moody", "seed=2", "name=cut")
    assert answer.code == 1
    assert ": its process was killed by SIGKILL" in answer.err
    clear_moods()
    assert sweep("scorer=moody", "seed=2", "name=cut").code == 0
    sweep("scorer=moody", "seed=2", "name=whole")
    assert attempts("multirun/cut") == [2]
    assert same_weights(["multirun/cut/0", "multirun/whole/0"])
    assert steps(Path("multirun/cut/0")) == [3, 5]


def test_a_job_without_a_checkpoint_starts_anew(finished):
    job = Path("multirun/two/0")
    change_info(job, status="running")
    for path in (job / "checkpoints").iterdir():
        path.unlink()
    log = (job / "log.txt").read_text(encoding="utf-8")
    assert finished().code == 0
    assert (status(job), steps(job)) == ("finished", [3, 5])
    assert (job / "log.txt").read_text(encoding="utf-8").startswith(log)


def test_a_job_interrupted_after_its_results_is_finished(finished):
    time_before = Path("multirun/two/0/checkpoints/last.ckpt").stat().st_mtime_ns
    Path("multirun/two/0/README.md").unlink()
    assert finished().code == 0
    assert Path("multirun/two/0/README.md").is_file()
    assert Path("multirun/two/0/checkpoints/last.ckpt").stat().st_mtime_ns == time_before


def test_a_sweep_of_another_configuration_is_refused(finished):
    """The command is another one, or what the folder holds was changed."""
    config = Path("multirun/two/1/config.yaml")
    for overrides, difference in (
        (["trainer.max_steps=7"], "trainer.max_steps: saved 5, requested 7"),
        ([], "decoder.hidden_size: saved 13, requested 11"),
    ):
        if not overrides:
            text = config.read_text(encoding="utf-8").replace("hidden_size: 11", "hidden_size: 13")
            config.write_text(text, encoding="utf-8")
        held_there = file_contents("multirun")
        answer = finished(*overrides)
        assert (answer.code, answer.out) == (2, "")
        assert difference in answer.err
        assert "fresh=true" in answer.err
        assert answer.err.count("\n") == 1
        assert file_contents("multirun") == held_there


def test_added_values_of_a_sweep_are_trained(finished, sweep):
    assert sweep("scorer=cosine,dot,scaled", "seed=2", "name=two").code == 0
    record = read_sweep("multirun/two")
    assert [(job.values["scorer"], job.attempts) for job in record.jobs] == [("dot", 1), ("scaled", 1), ("cosine", 1)]
    answer = sweep("scorer=cosine,dot", "seed=2", "name=two")
    assert answer.code == 2
    assert "scorer: saved cosine,dot,scaled, requested cosine,dot" in answer.err


def test_fresh_moves_the_old_sweep_aside(finished, sweep):
    old_files = {path.name: path.read_bytes() for path in Path("multirun/two/0").iterdir() if path.is_file()}
    answer = sweep("scorer=cosine", "name=two", "fresh=true")
    assert (answer.code, answer.err) == (0, "")
    assert "multirun/two is now multirun/two.1" in answer.out
    assert {path.name: path.read_bytes() for path in Path("multirun/two.1/0").iterdir() if path.is_file()} == old_files
    assert parts(Path("multirun/two/0"))[0] == "cosine"
    assert sweep("scorer=cosine", "name=two", "fresh=perhaps").code == 2


def test_fresh_refuses_a_sweep_with_a_run_in_training(sweep, work_folder):
    """It knows its folder by a path, and would go on in the new one."""
    folder = work_folder / "multirun" / "one"
    (folder / "0").mkdir(parents=True)
    save_sweep(Sweep(folder, "attnx -m", ["scorer=dot"], jobs=[SweepJob(0, ["scorer=dot"])]))
    with lock_run(folder / "0"):
        answer = sweep("scorer=dot", "name=one", "fresh=true")
    assert answer.code == 2
    assert "multirun/one/0: is being trained; wait for its end, or stop it first" in answer.err


def test_a_link_as_the_lock_of_a_sweep_is_not_followed(work_folder):
    (work_folder / "mine").write_text("safe", encoding="utf-8")
    (work_folder / "one").mkdir()
    (work_folder / "one" / SWEEP_LOCK).symlink_to(work_folder / "mine")
    with pytest.raises(UserError, match="cannot write the sweep's folder"), lock_folder(work_folder / "one"):
        pytest.fail("it is locked")
    assert (work_folder / "mine").read_text(encoding="utf-8") == "safe"


@pytest.mark.parametrize("restarts", ["0", "1"])
def test_fresh_starts_over_once_in_a_requeued_job(restarts, monkeypatch, work_folder):
    """SLURM repeats the command as it was."""
    folder = work_folder / "multirun" / "one"
    folder.mkdir(parents=True)
    save_sweep(Sweep(folder, "attnx -m", ["scorer=dot"], slurm_job="17"))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    assert sweep_command._continues_after_requeue(folder) is (restarts == "1")
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    assert not sweep_command._continues_after_requeue(folder)


def test_a_sweep_folder_is_locked(sweep):
    with lock_folder(Path("multirun/one")):
        answer = sweep("scorer=dot", "name=one")
        assert {path.name for path in Path("multirun/one").iterdir()} == {SWEEP_LOCK}
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "multirun/one: another attnx runs this sweep; wait for it, or end it" in answer.err


def test_jobs_run_in_parallel(sweep, moody, when_jobs_wait):
    Path("wait").touch()

    def interrupt(jobs: list[int]) -> None:
        Path("wait").unlink()
        for job in jobs:
            os.kill(job, signal.SIGINT)

    when_jobs_wait(interrupt, 2)  # one by one, the second would never come
    answer = sweep("scorer=moody", "seed=1,2,3", "name=three", "-j", "2")
    assert answer.code == 1
    assert sorted(stands("multirun/three")) == ["finished", "interrupted", "interrupted"]
    assert "-j 2" in read_sweep("multirun/three").command


@pytest.mark.parametrize(("cores", "jobs", "threads"), [(17, 3, "5"), (2, 5, "1")])
def test_threads_are_divided_among_jobs(cores, jobs, threads, work_folder, monkeypatch):
    monkeypatch.setattr(session, "available_cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert session.job_environment(jobs)["OMP_NUM_THREADS"] == threads
    assert "OMP_NUM_THREADS" not in session.job_environment(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert session.job_environment(jobs)["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_stopped_sweep_saves_its_jobs_and_prints_how_to_resume(
    sweep, moody, command, same_weights, clear_moods, when_jobs_wait, number, end
):
    jobs: list[int] = []

    def stop(waiting: list[int]) -> None:
        jobs.extend(waiting)
        os.kill(os.getpid(), number)

    Path("wait").touch()
    when_jobs_wait(stop, 2)
    answer = sweep("scorer=moody", "seed=1,2,3", "name=cut", "-j", "2")
    assert answer.code == 128 + number
    assert answer.err == f"attnx: {end}; resume with: attnx resume multirun/cut\n"
    assert "stopping" in answer.out
    assert answer.out.splitlines()[-1] == "multirun/cut/report.html"
    assert report_start("multirun/cut") == "3 runs: 2 interrupted, 1 waiting."
    wait_for_end(jobs)
    assert stands("multirun/cut") == ["interrupted", "interrupted", "waiting"]
    assert read_sweep("multirun/cut").status == "interrupted"
    assert [status(Path("multirun/cut") / str(number)) for number in range(2)] == ["interrupted", "interrupted"]
    clear_moods()
    assert command("resume", "multirun/cut", "-j", "2").code == 0
    assert stands("multirun/cut") == ["finished"] * 3
    assert report_start("multirun/cut") == "3 runs: 3 finished."
    assert attempts("multirun/cut") == [2, 2, 1]
    sweep("scorer=moody", "seed=2", "name=whole")
    assert same_weights(["multirun/cut/1", "multirun/whole/0"])


def test_a_third_ctrl_c_records_the_job_as_interrupted(fork_sweep, moody, wait_for_jobs):
    """It has begun, and hears neither the first Ctrl-C nor the second."""
    moody.write_text(moody.read_text(encoding="utf-8").replace("heard.append(before(*what))", "None"), encoding="utf-8")
    Path("wait").touch()
    process = fork_sweep("scorer=moody", "seed=1,2", "name=cut")
    jobs = wait_for_jobs(lambda: not process.has_ended())
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(2 * POLL_SECONDS)  # of several that wait, a process hears one
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "attnx: interrupted; resume with: attnx resume multirun/cut\n")
    wait_for_end(jobs)
    assert (read_sweep("multirun/cut").status, stands("multirun/cut")) == ("interrupted", ["interrupted", "waiting"])
    assert status(Path("multirun/cut/0")) == "interrupted"


def test_ctrl_c_at_the_end_leaves_no_running_sweep(sweep, monkeypatch):
    def slow(sweep: Sweep) -> None:
        if sweep.ended:
            signal.raise_signal(signal.SIGINT)
        save_sweep(sweep)

    monkeypatch.setattr(summary, "save_sweep", slow)
    assert sweep("scorer=dot", "name=one").code == 0
    assert read_sweep("multirun/one").status == "finished"


def test_a_finished_sweep_stays_finished(finished, command, monkeypatch):
    written = {path: path.stat().st_mtime_ns for path in Path("multirun").rglob("*")}
    answer = command("resume", "multirun/two")
    assert answer == (0, "multirun/two: finished; there is nothing left to do\n", "")
    assert {path: path.stat().st_mtime_ns for path in Path("multirun").rglob("*")} == written

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_command, "report_sweep", interrupt)
    assert finished().code == 130
    assert read_sweep("multirun/two").status == "finished"


def test_a_sweep_whose_folder_is_deleted_ends_in_one_line(sweep, moody, when_jobs_wait):
    Path("wait").touch()

    def delete(jobs: list[int]) -> None:
        shutil.rmtree("multirun/gone")
        os.kill(jobs[0], signal.SIGINT)

    when_jobs_wait(delete)
    answer = sweep("scorer=moody", "seed=1,2", "name=gone")
    message = "multirun/gone: the sweep's folder was deleted while it ran; start the sweep anew"
    assert (answer.code, answer.err) == (1, f"attnx: {message}\n")
    assert not Path("multirun/gone").exists()


def test_a_killed_sweep_leaves_no_process_and_resumes(start_command, sweep, moody, clear_moods, wait_for_jobs, command):
    """It could write no report; the report command lists what exists and what is missing."""
    Path("wait").touch()
    with start_command("-m", "scorer=moody", "seed=1,2", "name=cut") as process:
        jobs = wait_for_jobs(lambda: process.poll() is None)
        for server in stat(jobs[0])[1:2]:
            assert stat(server)[17] == "1"  # a thread would not survive a fork, and what it held would be held for ever
        process.kill()
        process.communicate()
    wait_for_end(jobs)
    assert f"process {jobs[0]}, 1 thread(s)\n" in Path("multirun/cut/0/log.txt").read_text(encoding="utf-8")
    # The job noticed, and saved what it had learned since its last checkpoint.
    assert status(Path("multirun/cut/0")) == "interrupted"
    assert stands("multirun/cut") == ["running", "waiting"]
    assert not Path("multirun/cut/report.html").exists()
    assert command("report", "multirun/cut").code == 0
    assert report_start("multirun/cut") == "2 runs: 1 interrupted, 1 waiting."
    clear_moods()
    assert sweep("scorer=moody", "seed=1,2", "name=cut").code == 0
    assert stands("multirun/cut") == ["finished", "finished"]
    assert attempts("multirun/cut") == [2, 1]


def test_a_killed_server_ends_the_sweep():
    processes = ForkServerProcesses({**os.environ})
    with contextlib.closing(processes):
        processes.server.send_signal(signal.SIGKILL)
        with pytest.raises(RunFailed, match="was killed, or could not be started; run the same command again"):
            processes.wait(60.0)


def test_a_pruned_job_stays_stopped(sweep, moody, monkeypatch):
    run = SweepSession.run

    def hopeless(self: SweepSession, jobs: Any) -> None:
        run(self, jobs, should_prune=lambda job: job.index == 0 and bool(list(Path().glob("reached-*"))))

    Path("wait").touch()
    with monkeypatch.context() as patch:
        patch.setattr(SweepSession, "run", hopeless)
        answer = sweep("scorer=moody,dot", "name=two")
    assert (answer.code, answer.err) == (0, "")
    assert stands("multirun/two") == ["pruned", "finished"]
    assert status(Path("multirun/two/0")) == "pruned"
    assert read_sweep("multirun/two").status == "finished"
    assert sweep("scorer=moody,dot", "name=two").code == 0
    assert attempts("multirun/two") == [1, 1]


@pytest.mark.parametrize("kind", ["launcher", "sweeper"])
def test_the_options_of_launchers_and_sweepers_are_those_of_their_files(kind):
    files = (conf_folder() / "hydra" / kind).glob("*.yaml")
    written = {option: value for file in files for option, value in yaml.safe_load(file.read_text()).items()}
    assert written.keys() == HYDRA_OPTIONS[kind].keys()
    for option, accepted in HYDRA_OPTIONS[kind].items():
        if accepted:
            check_typed(option, accepted, written[option])


def test_a_launcher_needs_its_options_and_its_cluster(refuse, work_folder, monkeypatch):
    file = work_folder / "conf" / "hydra" / "launcher" / "big.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("cluster: null\npartition: gpu\nnods: 2\n", encoding="utf-8")
    line = refuse("-m", "--config-dir", "conf", "hydra/launcher=big", "seed=1,2")
    assert line == "attnx: hydra/launcher has no option 'nods'; did you mean nodes?\n"
    for option, owner in {"launcher.detach": "launcher=slurm", "sweeper.n_trials": "sweeper=search"}.items():
        line = refuse("-m", "seed=1,2", f"hydra.{option}=1")
        assert line.endswith(f"has no option {option.partition('.')[2]!r}; it belongs to hydra/{owner}\n")
    monkeypatch.setenv("PATH", str(work_folder))
    line = refuse("-m", "hydra/launcher=slurm", "seed=1,2")
    assert line.startswith("attnx: hydra/launcher=slurm: this machine has no srun; start it where")


@pytest.fixture
def mixed_sweep(work_folder):
    """A sweep whose jobs stand in every way."""
    jobs = [
        SweepJob(0, ["scorer=dot", "seed=1"], "finished", seconds=61.0, attempts=1, monitor="valid_per", best=7.25),
        SweepJob(1, ["scorer=dot", "seed=2"], "running", attempts=1, monitor="valid_per", best=8.5),
        SweepJob(2, ["scorer=mlp", "seed=1"], "failed", seconds=2.0, attempts=1, error="killed by SIGKILL"),
        SweepJob(3, ["scorer=mlp", "seed=2"]),
    ]
    return Sweep(work_folder / "two", "attnx -m scorer=dot,mlp seed=1,2", ["scorer=dot,mlp", "seed=1,2"], jobs=jobs)


def test_the_table_shows_every_job(mixed_sweep):
    console = Console(width=120, force_terminal=True, record=True, file=io.StringIO())
    screen = LiveTable(console, max_parallel=1)
    running = JobProgress(monitor="valid_per", curve=[9.0, 8.5], step=20, steps=50)
    screen.first_steps[1] = (time.monotonic() - 10, 10)
    console.print(screen.table(mixed_sweep, {1: running}))
    lines = console.export_text().splitlines()
    rows = [line for line in lines if "dot" in line or "mlp" in line]
    for row, word in zip(rows[:4], ("finished", "20/50", "killed by SIGKILL", "waiting"), strict=True):
        assert word in row
    assert "0:30 left" in rows[1]  # ten steps in ten seconds, thirty to go
    assert " valid_per 7.25" in rows[0]
    summary = " ".join(lines[lines.index(rows[-2]) :])
    assert "1 waiting, 1 running, 1 finished, 1 failed" in summary


def test_a_sweep_record_reads_back(mixed_sweep):
    """And is updated from the folders: what is gone is to be done; what was running and has no folder never began."""
    mixed_sweep.path.mkdir()
    save_sweep(mixed_sweep)
    assert read_sweep(mixed_sweep.path) == mixed_sweep
    assert [job.status for job in open_record(mixed_sweep.path, "attnx -m", [], None).jobs] == ["waiting"] * 4
    file = mixed_sweep.path / "sweep.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"format": 1', '"format": 2'), encoding="utf-8")
    with pytest.raises(UserError, match="format 2"):
        read_sweep(mixed_sweep.path)

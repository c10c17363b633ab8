"""Runs and sweeps on a SLURM of this machine: its jobs, preemption, time limits, and ranks that srun starts."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from attnx.runs.sweep import read_sweep
from attnx.training.distributed.launched_rank import RankInfo

pytest.importorskip("submitit")
pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("slurm")]

SWEEP = ("-m", "hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1")
# The script of docs/distributed.md with a scorer that waits until SLURM takes its machine.
SCRIPT = """\
#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=output.txt

srun {command}
"""
RANK = "from attnx.training.distributed.launched_rank import launched_rank; print(launched_rank())"
POLL_SECONDS = 0.1
SECONDS = 300.0  # only for what would never end


def slurm_command(*words: str) -> str:
    """The output of one of SLURM's commands."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def shown_job(job: str) -> str:
    return slurm_command("scontrol", "show", "job", job)


def wait_for_state(job: str, state: str) -> None:
    start = time.monotonic()
    while f"JobState={state} " not in (shown := shown_job(job)):
        has_time = time.monotonic() - start < SECONDS and "JobState=FAILED " not in shown
        assert has_time, "\n".join([shown, *(path.read_text(encoding="utf-8") for path in Path().glob("*.txt"))])
        time.sleep(POLL_SECONDS)


def start_requeued(job: str, *settings: str) -> None:
    """Start a job as soon as it is requeued; SLURM would have it wait for two minutes."""
    wait_for_state(job, "PENDING")
    slurm_command("scontrol", "update", f"JobId={job}", "StartTime=now", *settings)


def sent_jobs(process: subprocess.Popen[str], count: int) -> list[str]:
    """SLURM's ids of the jobs that a sweep's command submits."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]
    return [line.split()[4].removesuffix(":") for line in lines]  # job 0 sent as 17_0: scorer=dot


def test_a_sweep_runs_as_jobs_of_slurm(start_command):
    with start_command(*SWEEP, "scorer=dot,additive", "name=two") as process:
        jobs = sent_jobs(process, 2)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "multirun/two/report.html"
    sweep = read_sweep("multirun/two")
    assert [job.status for job in sweep.jobs] == ["finished", "finished"]
    runs = [json.loads((sweep.folder(job) / "run.json").read_text(encoding="utf-8")) for job in sweep.jobs]
    assert [run["slurm_job"] for run in runs] == jobs
    for job in jobs:
        wait_for_state(job, "COMPLETED")


def test_a_detached_sweep_goes_on_without_its_command(start_command, moody):
    """What SLURM has is not submitted again, and a later command finds all jobs done."""
    Path("wait").touch()
    with start_command(*SWEEP, "hydra.launcher.detach=true", "scorer=moody", "seed=1,2", "name=sent") as process:
        jobs = sent_jobs(process, 2)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.endswith("attnx resume multirun/sent completes them\n")
    for job in jobs:
        wait_for_state(job, "RUNNING")
    resume = (sys.executable, "-m", "attnx", "resume", "multirun/sent")
    again = slurm_command(*resume)
    assert "2 running; attnx runs multirun/sent" in again
    assert [line for line in again.splitlines() if " is queued as " in line] == [
        f"job {index} is queued as {job}: seed={index + 1}" for index, job in enumerate(jobs)
    ]
    Path("go").touch()  # for those that wait, and those that would
    for job in jobs:
        wait_for_state(job, "COMPLETED")
    slurm_command(*resume)
    sweep = read_sweep("multirun/sent")
    assert [(job.status, job.attempts) for job in sweep.jobs] == [("finished", 1), ("finished", 1)]


def test_a_preempted_job_goes_on_bit_by_bit(
    words, small, no_pictures_folder, moody, run, monkeypatch, wait_for_jobs, clear_moods, same_weights
):
    """A script of sbatch loses both cores to a job of a partition of higher priority, and ends without help."""
    monkeypatch.setenv("PYTHONPATH", no_pictures_folder)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # srun may end before the task, and passes on nothing after
    overrides = ["scorer=moody", "model.dropout=0.2"]
    command = [sys.executable, "-m", "attnx", *small, *overrides, "folder=cut"]
    Path("job.sh").write_text(SCRIPT.format(command=" ".join(command)), encoding="utf-8")
    Path("wait").touch()
    job = slurm_command("sbatch", "--parsable", "job.sh").strip()
    wait_for_state(job, "RUNNING")
    wait_for_jobs(lambda: "JobState=RUNNING " in shown_job(job))
    clear_moods()
    slurm_command("sbatch", "--partition=urgent", "--exclusive", "--output=urgent.txt", "--wrap=true")
    start_requeued(job)
    wait_for_state(job, "COMPLETED")
    output = Path("output.txt").read_text(encoding="utf-8")
    assert "Restarts=1 " in shown_job(job)
    assert output.count("testing on") == 1
    assert output.count(" thread(s)") == 1  # the scorer's fourth step, which is not trained again
    run(*overrides, folder="undisturbed")
    assert same_weights(["cut", "undisturbed"])
    assert Path("cut/predictions.tsv").read_bytes() == Path("undisturbed/predictions.tsv").read_bytes()


def test_a_sweep_waits_for_jobs_that_are_requeued(start_command, moody, wait_for_jobs, clear_moods):
    """One job loses its machine, the other reaches its time limit, at which SLURM looks every 30 seconds."""
    Path("wait").touch()
    limits = ["hydra.launcher.timeout_min=10", "hydra.launcher.signal_delay_s=60"]
    with start_command(*SWEEP, *limits, "scorer=moody", "seed=1,2", "name=cut") as process:
        jobs = lost, late = sent_jobs(process, 2)
        wait_for_jobs(lambda: process.poll() is None, 2)
        clear_moods()
        slurm_command("scontrol", "update", f"JobId={late}", "TimeLimit=1")
        slurm_command("scontrol", "requeue", lost)
        start_requeued(lost)
        start_requeued(late, "TimeLimit=10")
        _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    sweep = read_sweep("multirun/cut")
    assert (sweep.status, [job.status for job in sweep.jobs]) == ("finished", ["finished", "finished"])
    for job, slurm_job in zip(sweep.jobs, jobs, strict=True):
        log = sweep.log(job).read_text(encoding="utf-8")
        assert (log.count("attnx: interrupted\n"), log.count("testing on")) == (1, 1)
        assert " Restarts=1 " in shown_job(slurm_job)


@pytest.mark.parametrize(
    ("machines", "overrides"),
    [
        (["--ntasks-per-node=2"], []),
        (
            ["--partition=pair", "--nodes=2", "--ntasks-per-node=1"],
            ["trainer=ddp", "trainer.devices=1", "trainer.num_nodes=2"],
        ),
    ],
    ids=["one machine", "two machines"],
)
def test_tasks_of_srun_are_ranks_of_one_run(machines, overrides, sized, words, no_pictures_folder):
    """On two machines each task starts the ranks of its own, and they meet at the first one by SLURM's list of them."""
    command = [sys.executable, "-m", "attnx", *sized(*overrides, "folder=ranks")]
    srun = ["srun", *machines, f"--export=ALL,PYTHONPATH={no_pictures_folder}", "--kill-on-bad-exit"]
    done = subprocess.run([*srun, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.count("testing on")) == (0, "", 1)
    info = json.loads(Path("ranks/run.json").read_text(encoding="utf-8"))
    assert (info["processes"], info["status"]) == (2, "finished")
    assert sorted(path.name for path in Path().iterdir()) == ["ranks", "words.tsv"]


@pytest.mark.parametrize(
    ("start", "ranks"),
    [
        ("srun --ntasks-per-node=2 ./rank.py", [RankInfo(rank, 2, rank, 2, 0, launcher="srun") for rank in range(2)]),
        ("srun ./rank.py", [None]),
        (
            "script --quiet --command 'srun --quiet --ntasks=2 --pty bash -c \"./rank.py; exit\"' /dev/null | tr -d ^@",
            [None],
        ),
        ("salloc --quiet --ntasks=2 ./rank.py", [None]),
        ("sbatch --quiet --ntasks=2 --wait --output=rank.txt ./rank.py && cat rank.txt", [None]),
    ],
    ids=["srun", "one task", "shell", "salloc", "sbatch"],
)
def test_only_several_tasks_of_srun_are_ranks(start, ranks):
    """A shell, a script of sbatch, and one task a machine start the ranks themselves."""
    Path("rank.py").write_text(f"#!{sys.executable}\n{RANK}\n", encoding="utf-8")
    Path("rank.py").chmod(0o755)
    output = slurm_command("bash", "-c", start)
    assert sorted(output.split("\n")[:-1]) == [str(rank) for rank in ranks]


def test_a_sweep_whose_jobs_wait_is_resumed(start_command):
    """Jobs stay in SLURM's queue when the command ends; of two jobs for one run the second finds it done."""
    slurm_command("scontrol", "update", "PartitionName=batch", "State=DOWN")
    with start_command(*SWEEP, "scorer=dot", "seed=1,2", "name=queued") as process:
        jobs = sent_jobs(process, 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "attnx: interrupted; resume with: attnx resume multirun/queued\n")
    resume = [sys.executable, "-m", "attnx", "resume", "multirun/queued"]
    with subprocess.Popen(resume, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        jobs += sent_jobs(process, 2)
        slurm_command("scontrol", "update", "PartitionName=batch", "State=UP")
        _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    for job in jobs:
        wait_for_state(job, "COMPLETED")
    sweep = read_sweep("multirun/queued")
    assert [job.status for job in sweep.jobs] == ["finished", "finished"]
    assert [sweep.log(job).read_text(encoding="utf-8").count("testing on") for job in sweep.jobs] == [1, 1]


def test_a_suite_trains_as_jobs_of_slurm(words, small, no_pictures_folder, fork_command):
    """All baselines are in SLURM's queue at once, as one array."""
    content = {"base": small, "tasks": {"words": []}, "baselines": {"additive": [], "dot": ["scorer=dot"]}}
    Path("toy.yaml").write_text(yaml.safe_dump({**content, "seeds": 1}), encoding="utf-8")
    process = fork_command("suite", "toy.yaml", *SWEEP[1:], PYTHONPATH=no_pictures_folder)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "multirun/suites/toy/baselines.html" in out
    jobs = read_sweep("multirun/suites/toy/baselines/seeds").jobs
    assert [job.status for job in jobs] == ["finished", "finished"]
    assert len({str(job.cluster_job).partition("_")[0] for job in jobs}) == 1

"""A stand-in for SLURM's commands, of which the first word says which: it runs jobs here, and sends them again.

What it knows of the jobs lies in the folder that $SLURM_STAND_IN names: what was asked for, and which jobs are over.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ARRAY = 4711
# Seconds that a job has to end; SLURM's KillWait.
PATIENCE = 30.0
SECONDS = 0.05
PLACE = Path(os.environ.get("SLURM_STAND_IN", "."))


def sbatch(script: str) -> None:
    """Start the jobs of an array, each with a process that watches it."""
    match = re.search(r"--array=0-(\d+)", Path(script).read_text(encoding="utf-8"))
    for task in range(int(match[1]) + 1 if match else 1):
        (PLACE / f"begun-{ARRAY}_{task}").touch()
        with (PLACE / "said").open("ab") as file:
            words = [sys.executable, __file__, "attend", script, str(task)]
            subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True)
    print(f"Submitted batch job {ARRAY}")


def attend(script: str, task: str) -> None:
    """Run a job, and again as often as it is sent again; not before all that it began has ended."""
    job, restarts = _number(f"{ARRAY}_{task}"), 0
    variables = {"SLURM_JOB_ID": job, "SLURM_ARRAY_JOB_ID": str(ARRAY), "SLURM_ARRAY_TASK_ID": task}
    while not restarts or (PLACE / f"requeued-{job}").exists():
        (PLACE / f"requeued-{job}").unlink(missing_ok=True)
        again = {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
        subprocess.run(["bash", script], env={**os.environ, **variables, **again}, check=False)
        _wait(job)
        restarts += 1
    (PLACE / f"over-{ARRAY}_{task}").touch()


def srun(*words: str) -> None:
    """Become the step of a job: what is behind the options."""
    remaining, files = list(words), {}
    while remaining[0].startswith("--"):
        option = remaining.pop(0)
        if option != "--unbuffered":
            files[option] = remaining.pop(0)
    signs = {"%A": os.environ["SLURM_ARRAY_JOB_ID"], "%a": os.environ["SLURM_ARRAY_TASK_ID"], "%t": "0"}
    for option, stream in (("--output", 1), ("--error", 2)):
        for sign, value in signs.items():
            files[option] = files[option].replace(sign, value)
        while not Path(files[option]).parent.exists():  # submitit makes it when it knows the number of the job
            time.sleep(SECONDS)
        os.dup2(os.open(files[option], os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.environ.update(SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_NTASKS="1", SLURM_NODEID="0", SLURM_LOCALID="0")
    os.execvp(remaining[0], remaining)


def scontrol(what: str, *job: str) -> None:
    """Requeue a job: it is terminated and then starts anew. Or show a job as preempted."""
    if what == "show":
        print("JobState=RUNNING PreemptTime=2031-05-07T11:13:17")
        return
    number = _number(job[0])
    with (PLACE / "asked").open("a", encoding="utf-8") as overrides:
        overrides.write(f"{what} {job[0]}\n")
    (PLACE / f"requeued-{number}").touch()
    _send(number, signal.SIGTERM)


def scancel(option: str, name: str, job: str) -> None:
    """Send a signal to all processes of a job's step, as SLURM does to warn it."""
    _send(_number(job), signal.Signals[name], "SLURM_STEP_ID=0")


def squeue(*words: str) -> None:
    """Tell which jobs are not over."""
    for file in PLACE.glob("begun-*"):
        if not (PLACE / file.name.replace("begun", "over")).exists():
            print(file.name.removeprefix("begun-"))


def _number(job: str) -> str:
    """What SLURM calls a job of an array where arrays do not matter."""
    array, _, task = job.partition("_")
    return str(int(array) + int(task or 0))


def _processes(job: str, also: str = "") -> list[int]:
    """Those of a job of this stand-in, by the variables they were started with, but for this one."""
    expected = {name.encode() for name in (f"SLURM_JOB_ID={job}", f"SLURM_STAND_IN={PLACE}", also) if name}
    result = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = set(file.read_bytes().split(b"\0"))
        except OSError:
            continue
        if expected <= variables and int(file.parent.name) != os.getpid():
            result.append(int(file.parent.name))
    return result


def _send(job: str, what: int, also: str = "") -> None:
    for process in _processes(job, also):
        try:
            os.kill(process, what)
        except ProcessLookupError:
            continue


def _wait(job: str) -> None:
    until = time.monotonic() + PATIENCE
    while _processes(job):
        if time.monotonic() > until:
            _send(job, signal.SIGKILL)
        time.sleep(SECONDS)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

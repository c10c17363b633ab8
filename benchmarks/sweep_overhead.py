"""What a job of a sweep costs beyond its own work, forked from a process with all imports or started anew.

python benchmarks/sweep_overhead.py [JOBS]
"""

from __future__ import annotations

import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

from peers.words import TINY, write_words
from rich.console import Console
from rich.table import Table

import attnx
from attnx.runs.sweep import read_sweep

JOB = [*TINY, "trainer.max_steps=5", "trainer.num_validations=1"]


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_words(2)
        work = statistics.median(alone(number) for number in range(jobs + 1))  # the first one imports
        table = Table(title=f"{jobs} tiny jobs, seconds; the work of one (train, test, draw) takes {work:.2f}")
        for column in ("each job", "a job", "beyond its work", "the complete sweep", "beyond its jobs"):
            table.add_column(column, justify="right")
        for name, fork in (("forked", "true"), ("started anew", "false")):
            total, job_seconds = swept(name.partition(" ")[0], fork, jobs)
            seconds_per_job = statistics.median(job_seconds)
            row = [seconds_per_job, seconds_per_job - work, total, total - sum(job_seconds)]
            table.add_row(name, *(f"{seconds:.2f}" for seconds in row))
        Console().print(table)
        os.chdir("/")


def alone(number: int) -> float:
    """Seconds of a run in this process."""
    config = attnx.compose([*JOB, f"seed={number}", f"folder=alone/{number}"])
    started = time.perf_counter()
    attnx.fit(config, console=Console(file=io.StringIO()))
    return time.perf_counter() - started


def swept(name: str, fork: str, jobs: int) -> tuple[float, list[float]]:
    """Seconds of a complete sweep, and of each of its jobs."""
    seeds = ",".join(map(str, range(jobs)))
    command = [
        sys.executable,
        "-m",
        "attnx",
        "-m",
        f"seed={seeds}",
        f"name={name}",
        f"hydra.launcher.fork={fork}",
        *JOB,
    ]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started, [job.seconds for job in read_sweep(f"multirun/{name}").jobs]


if __name__ == "__main__":
    main()

"""What a job costs beyond its own work, forked by a sweep from a process with all imports or as a command of its own.

python benchmarks/sweep_overhead.py [JOBS]
"""

from __future__ import annotations

import io
import os
import statistics
import sys
import tempfile
import time

from peers.kills import command_seconds
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
        for name, train in (("forked", swept), ("a command", train_one_by_one)):
            total, job_seconds = train(jobs)
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


def swept(jobs: int) -> tuple[float, list[float]]:
    """Seconds of a complete sweep, and of each of its jobs."""
    total = command_seconds("-m", f"seed={','.join(map(str, range(jobs)))}", "name=forked", *JOB)
    return total, [job.seconds for job in read_sweep("multirun/forked").jobs]


def train_one_by_one(jobs: int) -> tuple[float, list[float]]:
    """Seconds of all commands, and of each."""
    seconds = [command_seconds(f"seed={number}", f"folder=own/{number}", *JOB) for number in range(jobs)]
    return sum(seconds), seconds


if __name__ == "__main__":
    main()

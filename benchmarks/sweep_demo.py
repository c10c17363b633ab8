"""Twelve jobs, two at a time: the cost of a sweep beyond its trainings, and that kills and a failure lose nothing.

python benchmarks/sweep_demo.py

Each job is first trained alone, with all threads. Then the sweep runs undisturbed. Then it is killed twice by SIGKILL,
while one of its jobs fails, and continued. At last the cause of the failure is repaired, and it is continued again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from peers.environments import ROOT
from peers.kills import attnx, done, kill, start, weights
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from peers.words import WORDS, write_words
from rich.console import Console
from rich.table import Table

from attnx.runs.sweep import read_sweep

# A scorer with which one job of the sweep falls over after so many batches as a file says, as long as it is there.
FALLING = '''\
"""The scorer ``falling``."""

import torch
from pathlib import Path

from attnx.attention.scorers.dot import Dot
from attnx.registry import register


@register("scorer", "falling")
class Falling(Dot):
    """The inner product, which falls over with the third seed.

    Formula: ``score(q, m) = q . m``
    Source: none
    """

    requires_equal_dims = True

    def __init__(self) -> None:
        super().__init__()
        self.falls, self.calls = torch.initial_seed() == 3, 0

    def score(self, queries, keys):
        self.calls += self.training
        if self.falls and Path("fall").is_file() and self.calls > int(Path("fall").read_text()):
            raise RuntimeError("I have fallen over")
        return super().score(queries, keys)
'''
SCORERS, SEEDS = ("additive", "dot", "scaled", "falling"), ("1", "2", "3")
JOBS = [*itertools.product(SCORERS, SEEDS)]
SWEEP = (f"scorer={','.join(SCORERS)}", f"seed={','.join(SEEDS)}", "-j", "2")
CUT = Path("multirun/cut")
# Of the time that the undisturbed sweep takes: when it is killed, and again after it was begun once more.
KILLED = (0.35, 0.35)


def main() -> None:
    """Run everything, print and record."""
    options, console = read_options(), Console()
    out, home, busy_cpus = options.out.absolute(), Path.cwd(), watch_neighbors()
    job = sizes(options)
    os.environ.pop("OMP_NUM_THREADS", None)  # alone with all of them, side by side with a share each
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        write_words(4)
        Path("plugins").mkdir()
        Path("plugins/falling.py").write_text(FALLING, encoding="utf-8")
        trained = alone(job, console)
        console.print("the sweep, undisturbed", highlight=False)
        wall = seconds("-m", *SWEEP, "name=undisturbed", *job)
        # However far its last checkpoint was, it falls again each time it is tried.
        Path("fall").write_text(str(options.steps // 4), encoding="utf-8")
        killed = survive(job, wall, console)
        Path("fall").unlink()
        repaired = continue_sweep()
        folders = [(Path("multirun/undisturbed", str(number)), CUT / str(number)) for number in range(len(JOBS))]
        equal = [weights(folder) == weights(expected) for folder, expected in folders]
        os.chdir(home)
    undisturbed = {"seconds": wall, "trained alone, seconds": sum(trained), "ratio": wall / sum(trained)}
    results = {
        "undisturbed": undisturbed,
        "killed": killed,
        "repaired": repaired,
        "weights equal": equal,
        "cpus_used_by_other_programs": busy_cpus(),
    }
    show(results, console)
    record(out, vars(options) | {"out": str(out)}, results, ("torch", "lightning"))
    sys.exit(bad(results))


def sizes(options: argparse.Namespace) -> tuple[str, ...]:
    """The options of each job: a fixed number of steps, few words in validation and test."""
    return (
        f"task.train={WORDS}",
        "task.holdout=0.1",
        f"model.embedding_dim={options.width // 2}",
        f"encoder.hidden_size={options.width}",
        f"decoder.hidden_size={options.width}",
        "trainer.batch_size=64",
        f"trainer.max_steps={options.steps}",
        "trainer.max_time=null",
        "trainer.num_validations=4",
        "trainer.valid_examples=50",
        "trainer.test_examples=50",
        "trainer.checkpoint_every=50",
    )


def alone(job: tuple[str, ...], console: Console) -> list[float]:
    """Training seconds, validation included, of each job by itself with all threads."""
    results = []
    for number, (scorer, seed) in enumerate(JOBS):
        folder = f"alone/{number}"
        seconds(f"scorer={scorer}", f"seed={seed}", f"folder={folder}", *job)
        results.append(json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))["train_seconds"])
        console.print(f"alone, {scorer}, seed {seed}: {results[-1]:.1f} s of training", highlight=False)
    return results


def seconds(*words: str) -> float:
    """The time of a command, which must succeed."""
    began = time.perf_counter()
    subprocess.run(attnx(*words), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def survive(job: tuple[str, ...], wall: float, console: Console) -> dict[str, Any]:
    """Kill the sweep twice, continue it to its end, and check what is missing or was done twice."""
    finish_times: dict[Path, int] = {}
    twice, kills, finished_counts = 0, 0, []
    words = ("-m", *SWEEP, "name=cut", *job)
    for attempt in range(len(KILLED) + 1):
        process = start(*words)
        if attempt < len(KILLED):
            try:
                process.wait(KILLED[attempt] * wall)
            except subprocess.TimeoutExpired:
                kill(process, with_descendants=attempt % 2 == 1)
                kills += 1
        process.wait()
        for folder in finished():
            when = (folder / "results.json").stat().st_mtime_ns
            twice += finish_times.setdefault(folder, when) != when
        finished_counts.append(len(finish_times))
        console.print(f"the sweep, {attempt + 1}. time: {finished_counts[-1]} jobs are finished", highlight=False)
        words = ("resume", str(CUT), "-j", "2")
    done_so_far = {"kills": kills, "finished after each": finished_counts, "trained twice": twice}
    return {**done_so_far, "exit code": process.returncode, **standing(CUT)}


def continue_sweep() -> dict[str, Any]:
    """Continue once more, with no failing job and as many threads per job, which sums depend on."""
    times_before = {folder: (folder / "results.json").stat().st_mtime_ns for folder in finished()}
    code = subprocess.run(attnx("resume", str(CUT), "-j", "2"), check=False, stdout=subprocess.DEVNULL).returncode
    twice = sum((folder / "results.json").stat().st_mtime_ns != when for folder, when in times_before.items())
    return {"exit code": code, "trained twice": twice, **standing(CUT)}


def finished() -> list[Path]:
    """The folders of finished jobs."""
    return [folder for folder in CUT.glob("[0-9]*") if done(folder)]


def standing(folder: Path) -> dict[str, Any]:
    """The status of the jobs by the sweep's own record, and which of them its report holds."""
    sweep = read_sweep(folder)
    text = (folder / "report.md").read_text(encoding="utf-8")
    with (folder / "report.csv").open(encoding="utf-8", newline="") as file:
        compared = sum(len(row["folders"].split()) for row in csv.DictReader(file))
    return {
        "jobs": dict(Counter(job.status for job in sweep.jobs)),
        "errors": {sweep.label(job): job.error for job in sweep.jobs if job.error},
        "report": text.splitlines()[2],
        "runs that it compares": compared,
    }


def bad(results: dict[str, Any]) -> bool:
    """Whether anything was lost, done twice or is missing in a report; the ratio is not judged."""
    killed, repaired = results["killed"], results["repaired"]
    return (
        killed["kills"] != len(KILLED)
        or killed["jobs"] != {"finished": 11, "failed": 1}
        or [*killed["errors"].values()] != ["RuntimeError: I have fallen over"]
        or killed["report"] != "12 runs: 11 finished, 1 failed."
        or (killed["runs that it compares"], repaired["runs that it compares"]) != (11, 12)
        or repaired["jobs"] != {"finished": 12}
        or repaired["report"] != "12 runs: 12 finished."
        or (killed["exit code"], repaired["exit code"]) != (1, 0)
        or killed["trained twice"] + repaired["trained twice"] > 0
        or not all(results["weights equal"])
    )


def show(results: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    undisturbed = results["undisturbed"]
    title = f"undisturbed: {undisturbed['seconds']:.0f} s; the 12 trainings alone, with all threads: "
    title += f"{undisturbed['trained alone, seconds']:.0f} s; ratio {undisturbed['ratio']:.2f} (aim: at most 1.2)"
    table = Table(title=title, title_justify="left")
    for heading in ("killed twice, one job made to fail", "continued to its end", "repaired, continued"):
        table.add_column(heading)
    for name in ("kills", "jobs", "report", "runs that it compares", "errors", "trained twice", "exit code"):
        table.add_row(name, *(str(results[step].get(name, 0)) for step in ("killed", "repaired")))
    equal = results["weights equal"]
    table.add_row("weights as undisturbed", "", f"{sum(equal)} of {len(equal)}")
    console.print(table)
    if (results["cpus_used_by_other_programs"] or 0) >= BUSY:
        console.print("disturbed by other programs: run it again on an idle machine", style="red")


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--steps", type=int, default=400, help="steps of each job (400)")
    add("--width", type=int, default=128, help="width of encoder and decoder, an even number (128)")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "sweep_demo.json", help="JSON file to write")
    return parser.parse_args()


if __name__ == "__main__":
    main()

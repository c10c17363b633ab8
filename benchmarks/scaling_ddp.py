"""Words per second of what two cores can run: a process with two threads, two processes of one run, two jobs at once.

Each trains the same model on the same pairs by the command, in turn, round after round. A step learns from as many
pairs, by one process or by two; of two jobs of a sweep the speeds are added up. Printed and written as JSON are the
speeds and their ratios to those of one process in the same round.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from peers.contest import Rounds, by_row, measure_rounds, show_trouble, table
from peers.environments import ROOT, run
from peers.record import record
from peers.training import ATTNX, SIZES, draw_pairs, read_speed, write_pairs
from rich.console import Console
from training_speed import SCHEDULES

WARMUP = 3
"""Steps that attnx does not count."""
NAME = "jobs"
Rows = dict[str, Callable[[], float]]


class Way(NamedTuple):
    """A way to use two cores."""

    threads: int
    """Of each process."""
    rows: int
    """Of a batch of each process."""
    words: tuple[str, ...]
    """Further words of the command."""
    folders: tuple[str, ...]
    """The run folders whose speeds are added up."""


WAYS = {
    "one process, two threads": Way(2, SIZES["batch"], ("folder=run",), ("run",)),
    "two processes of one run": Way(
        1, SIZES["batch"] // 2, ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu", "folder=run"), ("run",)
    ),
    "two jobs of a sweep": Way(
        1, SIZES["batch"], ("-m", "-j", "2", "seed=1,2", f"name={NAME}"), (f"multirun/{NAME}/0", f"multirun/{NAME}/1")
    ),
}
ALONE = next(iter(WAYS))


def measure(way: Way, overrides: Sequence[str], request: dict[str, Any], limit: float) -> float:
    """Words per second of runs by the command.

    Raises:
        FailedError: a run fails, or does not state its speed.
    """
    values = {**request, "batch": way.rows, "folder": "run"}
    settings = [override.format(**values) for override in (*ATTNX, *overrides) if not override.startswith("folder=")]
    with tempfile.TemporaryDirectory() as folder:
        run([sys.executable, "-m", "attnx", *way.words, *settings], Path(folder), way.threads, limit)
        return sum(read_speed(Path(folder) / name) for name in way.folders)


def ratios(speeds: Rounds, schedules: Sequence[str]) -> Rounds:
    """For each round, the speed of each way relative to that of one process."""
    return [
        {
            f"{schedule}: {way} / {ALONE}": speed[f"{schedule}: {way}"] / speed[f"{schedule}: {ALONE}"]
            for schedule in schedules
            for way in list(WAYS)[1:]
            if {f"{schedule}: {way}", f"{schedule}: {ALONE}"} <= speed.keys()
        }
        for speed in speeds
    ]


def read_options() -> argparse.Namespace:
    names = [row.removeprefix("attnx, ") for row in SCHEDULES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="all are measured once per round")
    add("--words", type=int, default=6400, help="training pairs in each measurement")
    add("--schedules", nargs="+", choices=names, default=names, help="orders of recurrence and attention")
    add("--limit", type=float, default=900.0, help="time limit of a measurement in seconds")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "scaling_ddp.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.words) < 1:
        parser.error("--rounds and --words must be at least 1")
    return options


def main() -> None:
    options, console = read_options(), Console()
    steps = math.ceil(options.words / SIZES["batch"])
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.tsv"
        write_pairs(draw_pairs((WARMUP + steps + 1) * SIZES["batch"]), pairs)
        request = {**SIZES, "pairs": str(pairs), "updates": WARMUP + steps}
        entrants: Rows = {
            f"{schedule}: {name}": partial(measure, way, SCHEDULES[f"attnx, {schedule}"], request, options.limit)
            for schedule in options.schedules
            for name, way in WAYS.items()
        }
        speeds, busy = measure_rounds(options.rounds, entrants, problems, console)
    compared = ratios(speeds, options.schedules)
    console.print(table(f"words per second ({steps * SIZES['batch']} words)", speeds, 0))
    console.print(table("relative to one process, in the same round", compared, 2))
    show_trouble(problems, busy, console)
    measurements = {"words_per_second": by_row(speeds), "ratios": by_row(compared), "problems": problems}
    used = {"cpus_used_by_other_programs": by_row(busy)}
    record(options.out, {"words": steps * SIZES["batch"], "rounds": options.rounds, **SIZES}, measurements | used)


if __name__ == "__main__":
    main()

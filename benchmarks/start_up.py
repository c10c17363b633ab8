"""How long attnx takes to answer and to begin training, compared with ``import lightning``.

All are measured in turn, each in a new process, round after round. Seconds, and their ratio to the import in the same
round, are printed and written as JSON.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from peers.environments import ROOT, FailedError, run
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from peers.words import write_words
from rich.console import Console
from rich.table import Table

IMPORT = "import lightning"
FIRST_STEP = Path(__file__).parent / "peers" / "first_step.py"
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    IMPORT: ("-c", IMPORT),
    "attnx --help": ("-m", "attnx", "--help"),
    "attnx --cfg job": ("-m", "attnx", "--cfg", "job"),
    "first training step": ("-P", FIRST_STEP, "task.train={words}", "folder={folder}"),
}
"""What each row runs with Python; its seconds end with the process."""


def seconds(arguments: tuple[str | Path, ...], threads: int) -> float:
    """From the start of a process to its end."""
    with tempfile.TemporaryDirectory() as parent:
        filled = {"words": Path(parent) / "words.tsv", "folder": Path(parent) / "run"}
        write_words(4, filled["words"])
        command = [sys.executable, *(str(argument).format(**filled) for argument in arguments)]
        start = time.perf_counter()
        run(command, ROOT, threads)
        return time.perf_counter() - start


def measure(options: argparse.Namespace, console: Console) -> list[dict[str, float]]:
    """Seconds of every row in every round, and the CPUs that other programs used under ``other_programs``."""
    rounds = []
    for number in range(1, options.rounds + 1):
        busy_cpus = watch_neighbors()
        times_by_row = {}
        for row, arguments in COMMANDS.items():
            with console.status(f"round {number} of {options.rounds}: {row}"):
                times_by_row[row] = seconds(arguments, options.threads)
        used = busy_cpus()
        rounds.append(times_by_row | ({} if used is None else {"other_programs": used}))
    return rounds


def summary(rounds: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """For every row its seconds and its ratios to the import, by round and their medians."""
    rows = {}
    for row in COMMANDS:
        times = [times_by_row[row] for times_by_row in rounds]
        ratios = [times_by_row[row] / times_by_row[IMPORT] for times_by_row in rounds]
        rows[row] = {"seconds": median(times), "ratio": median(ratios), "rounds": times, "ratios": ratios}
    return rows


def show(rounds: list[dict[str, float]], console: Console) -> None:
    """Print the table."""
    display = Table(title="medians; ratios are to the import in the same round", title_justify="left")
    for heading in ("", "seconds", f"times `{IMPORT}`", "lowest", "highest"):
        display.add_column(heading, justify="right" if heading else "left")
    for row, figures in summary(rounds).items():
        ratios = (figures["ratio"], min(figures["ratios"]), max(figures["ratios"]))
        display.add_row(row, f"{figures['seconds']:.2f}", *(f"{ratio:.2f}" for ratio in ratios))
    console.print(display)
    if any(times_by_row.get("other_programs", 0) >= BUSY for times_by_row in rounds):
        console.print("disturbed by other programs: run it again on an idle machine", style="red")


def write(options: argparse.Namespace, rounds: list[dict[str, float]]) -> None:
    """Write the options and the measurements to the JSON file."""
    chosen_options = {"rounds": options.rounds, "threads": options.threads}
    measurements = {
        "measured": summary(rounds),
        "cpus_used_by_other_programs": [times_by_row.get("other_programs") for times_by_row in rounds],
    }
    record(options.out, chosen_options, measurements, packages=("torch", "lightning"))


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="all are measured once per round")
    add("--threads", type=int, default=2, help="CPU threads")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "start_up.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    return options


def main() -> None:
    """Measure every row and report."""
    options, console = read_options(), Console()
    try:
        rounds = measure(options, console)
    except FailedError as error:
        raise SystemExit(f"error: {error}") from error
    show(rounds, console)
    write(options, rounds)
    console.print(f"written to {options.out}", highlight=False)


if __name__ == "__main__":
    main()
